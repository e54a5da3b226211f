// SPDX-License-Identifier: Apache-2.0
// HostInstall: the host's program works at every moment, even if the installing process is killed.
#include "node/host_install.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <signal.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/held_file.h"

namespace berth::node {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
std::string Read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class HostInstall : public testing::Test {
 protected:
  HostInstall() {
    std::string name = fs::temp_directory_path() / "berth-install-test.XXXXXX";
    folder_ = mkdtemp(name.data());
    bin_ = folder_ / "bin";
    fs::create_directories(bin_);
    fs::create_directories(image());
    Write(image() / "berth", new_);
  }
  ~HostInstall() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path image() const { return folder_ / "image"; }
  [[nodiscard]] Expected<bool> Install() const { return InstallProgram(image() / "berth", bin_); }
  void PutOld() const {
    Write(bin_ / "berth", old_);
    chmod((bin_ / "berth").c_str(), 0755);
  }
  [[nodiscard]] std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(bin_)) names.insert(entry.path().filename());
    return names;
  }
  // Installs in a child process, and kills the child before its system call `number`. False: the child ended before
  // that call.
  [[nodiscard]] bool KillBeforeCall(int number) const;

  const std::string old_ = "old program";
  const std::string new_ = std::string(100'000, 'n');
  fs::path folder_;
  fs::path bin_;
};

bool HostInstall::KillBeforeCall(int number) const {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    _exit(Install() ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  int status = 0;
  waitpid(child, &status, 0);
  // Each system call stops the child twice: before and after the call.
  for (int stop = 0; stop <= 2 * number && WIFSTOPPED(status); ++stop) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), EXIT_SUCCESS);
    return false;
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return true;
}

TEST_F(HostInstall, AsksWhetherItMayWhileNobodyElseInstalls) {
  PutOld();
  const auto may_not = [this]() -> Expected<void> {
    // InstallProgram holds this lock while it calls `may`.
    const HeldFile other(open(bin_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(flock(other.descriptor(), LOCK_EX | LOCK_NB), -1);
    return Fail(ErrorCode::kUnavailable, "the node is another mode's");
  };
  const auto installed = InstallProgram(image() / "berth", bin_, may_not);
  ASSERT_FALSE(installed.has_value());
  EXPECT_EQ(installed.error().message, "the node is another mode's");
  EXPECT_EQ(Read(bin_ / "berth"), old_);
  EXPECT_EQ(InstallProgram(image() / "berth", bin_, [] { return Expected<void>(); }).value(), true);
}

TEST_F(HostInstall, InstallsAMissingProgram) {
  EXPECT_EQ(Install(), Expected<bool>(true));
  EXPECT_EQ(Read(bin_ / "berth"), new_);
  EXPECT_EQ(fs::status(bin_ / "berth").permissions(), fs::perms(0755));
  EXPECT_THAT(Names(), ElementsAre("berth"));
}

TEST_F(HostInstall, LeavesTheSameProgramAlone) {
  ASSERT_TRUE(Install().has_value());
  struct stat before = {};
  stat((bin_ / "berth").c_str(), &before);
  EXPECT_EQ(Install(), Expected<bool>(false));
  struct stat after = {};
  stat((bin_ / "berth").c_str(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(HostInstall, ReplacesAProgramThatCannotBeExecuted) {
  Write(bin_ / "berth", new_);
  chmod((bin_ / "berth").c_str(), 0644);
  EXPECT_EQ(Install(), Expected<bool>(true));
  EXPECT_EQ(fs::status(bin_ / "berth").permissions(), fs::perms(0755));
}

TEST_F(HostInstall, ReplacesALinkAndNotWhatItLeadsTo) {
  Write(folder_ / "elsewhere", old_);
  fs::create_symlink(folder_ / "elsewhere", bin_ / "berth");
  EXPECT_EQ(Install(), Expected<bool>(true));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(bin_ / "berth")));
  EXPECT_EQ(Read(folder_ / "elsewhere"), old_);
}

TEST_F(HostInstall, LeavesOtherFilesAlone) {
  Write(bin_ / "bridge", "b");
  Write(bin_ / "berth-direct", "d");
  ASSERT_TRUE(Install().has_value());
  EXPECT_THAT(Names(), ElementsAre("berth", "berth-direct", "bridge"));
}

TEST_F(HostInstall, KeepsAWorkingProgramWhereverItIsKilled) {
  PutOld();
  int killed = 0;
  while (KillBeforeCall(killed)) {
    const std::string there = Read(bin_ / "berth");
    ASSERT_TRUE(there == old_ || there == new_) << "killed before call " << killed << ": " << there.size() << " bytes";
    ASSERT_EQ(fs::status(bin_ / "berth").permissions(), fs::perms(0755)) << "killed before call " << killed;
    // The killed process left no file that hinders the next installation, and the next installation removes the copy.
    ASSERT_TRUE(Install().has_value());
    ASSERT_THAT(Names(), ElementsAre("berth"));
    PutOld();
    ++killed;
  }
  EXPECT_GE(killed, 10) << "fewer system calls than an installation has";
}

TEST_F(HostInstall, NamesTheFolderThatIsNotThere) {
  fs::remove_all(bin_);
  const auto outcome = Install();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, HasSubstr(bin_.string()));
  EXPECT_THAT(outcome.error().details, HasSubstr("the folder that the node's runtime uses"));
}

TEST_F(HostInstall, SaysThatRootMustOwnTheFolderThatItMayNotWrite) {
  chmod(folder_.c_str(), 0755);
  chmod(bin_.c_str(), 0555);
  // In the agent's pod root has no capabilities, so modes of folders restrict root. Another user stands for root here.
  const bool was_root = geteuid() == 0 && seteuid(65534) == 0;
  const auto outcome = Install();
  ASSERT_EQ(was_root ? seteuid(0) : 0, 0);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, HasSubstr(bin_.string()));
  EXPECT_THAT(outcome.error().details, HasSubstr("chown root"));
}

TEST_F(HostInstall, WritesAConflistInPlaceOnlyIfItDiffers) {
  Write(image() / "berth.conflist", R"({"name": "new"})");
  const fs::path target = bin_ / "10-berth.conflist";
  Write(target, R"({"name": "one that was longer"})");
  struct stat before = {};
  stat(target.c_str(), &before);
  EXPECT_EQ(InstallConflist(image() / "berth.conflist", target), Expected<bool>(true));
  EXPECT_EQ(Read(target), R"({"name": "new"})");
  struct stat after = {};
  stat(target.c_str(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(InstallConflist(image() / "berth.conflist", target), Expected<bool>(false));
}

// The files of a ConfigMap are symbolic links, too.
TEST_F(HostInstall, ReadsAConflistThroughALink) {
  Write(image() / "data", "{}");
  fs::create_symlink("data", image() / "berth.conflist");
  EXPECT_EQ(InstallConflist(image() / "berth.conflist", bin_ / "10-berth.conflist"), Expected<bool>(true));
  EXPECT_EQ(Read(bin_ / "10-berth.conflist"), "{}");
}

TEST_F(HostInstall, WritesNothingThatIsNoJson) {
  Write(image() / "berth.conflist", "name: new");
  const auto outcome = InstallConflist(image() / "berth.conflist", bin_ / "10-berth.conflist");
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, HasSubstr("berth.conflist"));
  EXPECT_FALSE(fs::exists(bin_ / "10-berth.conflist"));
}

}  // namespace
}  // namespace berth::node
