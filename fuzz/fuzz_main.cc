// SPDX-License-Identifier: Apache-2.0
// berth-fuzz: changes the inputs of corpus/ at random and runs their targets with them. Inputs that run new code are
// changed further.
//
// The first input that breaks its target ends the process, and stays in the file fuzz-<target>. fuzz/README.md says
// what to do with this file, and why berth does not use libFuzzer or AFL++.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "base/places.h"
#include "fuzz/coverage.h"
#include "fuzz/mutator.h"
#include "fuzz/target.h"

namespace berth::fuzz {
namespace {

// An input that takes longer than this is an error: SIGALRM ends the process.
constexpr unsigned kSecondsPerInputMax = 10;

// A file with the input that runs now. If the process dies, the file keeps this input.
class RunningInput {
 public:
  explicit RunningInput(std::string path) : path_(std::move(path)) {
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, Mutator::kInputBytesMax) != 0) Die();
    map_ = static_cast<char*>(mmap(nullptr, Mutator::kInputBytesMax, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (map_ == MAP_FAILED) Die();
    close(file);
  }
  RunningInput(const RunningInput&) = delete;
  RunningInput& operator=(const RunningInput&) = delete;
  ~RunningInput() {
    munmap(map_, Mutator::kInputBytesMax);
    unlink(path_.c_str());
  }
  // Writes the input to the file, and zeros over the rest of the last input.
  void Set(const std::string& input) {
    std::memset(map_, 0, last_bytes_);
    std::memcpy(map_, input.data(), input.size());
    last_bytes_ = input.size();
  }

 private:
  [[noreturn]] void Die() const {
    std::perror(path_.c_str());
    std::exit(EXIT_FAILURE);
  }

  std::string path_;
  char* map_ = nullptr;
  std::size_t last_bytes_ = 0;
};

std::vector<std::string> ReadCorpus(std::string_view target) {
  std::vector<std::string> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/fuzz/corpus/" + std::string(target))) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

void Fuzz(const Target& target, std::chrono::seconds limit, std::uint64_t seed) {
  std::vector<std::string> inputs = ReadCorpus(target.name);
  const std::size_t given = inputs.size();
  Mutator mutator(seed);
  RunningInput running("fuzz-" + std::string(target.name));
  const auto run = [&](const std::string& input) {
    running.Set(input);
    alarm(kSecondsPerInputMax);
    BeginInput();
    target.run(input);
    return RanSomethingNew();
  };
  for (const std::string& input : inputs) {
    mutator.Learn(input);
    static_cast<void>(run(input));
  }
  std::uint64_t count = 0;
  for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end; ++count) {
    std::string input = mutator.Next(inputs);
    if (run(input)) inputs.push_back(std::move(input));
  }
  alarm(0);
  std::printf("%-16s %9llu inputs, %zu that ran something new, seed %llu\n",
              std::string(target.name).c_str(),
              static_cast<unsigned long long>(count),
              inputs.size() - given,
              static_cast<unsigned long long>(seed));
}

std::uint64_t Number(const char* text, std::uint64_t otherwise) {
  if (text == nullptr) return otherwise;
  std::uint64_t value = otherwise;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

int Main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  if (only == "--help" || only == "-h") {
    std::printf(
        "Feeds changed inputs of fuzz/corpus to the code that reads foreign text, and stops at the first that breaks "
        "it.\n"
        "Usage: berth-fuzz [TARGET], in build/fuzz; FUZZ_SECONDS and BERTH_SEED set time per target and "
        "seed.\nTargets:");
    for (const Target& target : AllTargets()) std::printf(" %s", std::string(target.name).c_str());
    std::printf("\n\nExamples:\n  make fuzz\n  FUZZ_SECONDS=5 make fuzz TARGET=block\n");
    return EXIT_SUCCESS;
  }
  const std::chrono::seconds limit(Number(std::getenv("FUZZ_SECONDS"), 30));
  const std::uint64_t seed = Number(std::getenv("BERTH_SEED"), std::random_device()());
  bool is_known = only.empty();
  for (const Target& target : AllTargets()) {
    if (!only.empty() && only != target.name) continue;
    is_known = true;
    Fuzz(target, limit, seed);
  }
  if (!is_known) std::fprintf(stderr, "no target %s\n", only.c_str());
  return is_known ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace berth::fuzz

int main(int argc, char** argv) { return berth::fuzz::Main(argc, argv); }
