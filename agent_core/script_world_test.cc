// SPDX-License-Identifier: Apache-2.0
// ScriptWorld: carries out the commands of scripts.
#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "agent_core/script_world_test_setup.h"

namespace berth::agent_core {

namespace {

constexpr std::chrono::seconds kScriptDeadline{10};

std::uint64_t NumberIn(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// After("standby=1-2", "standby=") is "1-2".
std::optional<std::string_view> After(std::string_view word, std::string_view start) {
  if (!word.starts_with(start)) return std::nullopt;
  return word.substr(start.size());
}

ipam::OffsetSet OffsetsIn(std::string_view text) {
  ipam::OffsetSet offsets;
  std::istringstream ranges((std::string(text)));
  for (std::string range; text != "-" && std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const std::uint64_t first = NumberIn(range);
    const std::uint64_t last = dash == std::string::npos ? first : NumberIn(std::string_view(range).substr(dash + 1));
    for (std::uint64_t offset = first; offset <= last; ++offset) offsets.insert(static_cast<ipam::BlockOffset>(offset));
  }
  return offsets;
}

CoreOptions OptionsOf(const ScriptWords& words, const std::set<std::string>& ended_netns) {
  CoreOptions options{.self = {.node = "n1", .instance = words.size() > 1 ? words[1] : "m-me"}, .standby = 2};
  for (const std::string& word : words) {
    if (const auto standby = After(word, "standby=")) options.standby = NumberIn(*standby);
    if (word == "sees-netns") {
      options.self.may_have_netns = [&ended_netns](const std::string& name) { return !ended_netns.contains(name); };
    }
  }
  return options;
}

bool HasWord(const ScriptWords& words, std::string_view word) { return std::ranges::find(words, word) != words.end(); }

// Reads the time limit of "... within 5 s".
SteadyTime DeadlineIn(const ScriptWords& words, SteadyTime now) {
  const auto within = std::ranges::find(words, "within");
  return now + (within == words.end() ? kScriptDeadline : std::chrono::seconds(NumberIn(*std::next(within))));
}

}  // namespace

ScriptWorld::ScriptWorld() : core_(OptionsOf({}, ended_netns_)) { Prove({}); }

const std::vector<ScriptWorld::Command>& ScriptWorld::Commands() {
  static const std::vector<Command> kCommands = {
      {"agent", &ScriptWorld::StartAgent},
      {"block", &ScriptWorld::TakeOver},
      {"use", &ScriptWorld::Use},
      {"submit", &ScriptWorld::Submit},
      {"withdraw", &ScriptWorld::Withdraw},
      {"hand-out", &ScriptWorld::HandOut},
      {"resume", &ScriptWorld::Resume},
      {"write-what-is-left", &ScriptWorld::WriteWhatIsLeft},
      {"begin", &ScriptWorld::Begin},
      {"written", &ScriptWorld::Written},
      {"lost", &ScriptWorld::Lose},
      {"conflict", &ScriptWorld::FailRequest},
      {"refused", &ScriptWorld::FailRequest},
      {"unavailable", &ScriptWorld::FailRequest},
      {"not-found", &ScriptWorld::FailRequest},
      {"read", &ScriptWorld::AnswerRead},
      {"others", &ScriptWorld::Others},
      {"seen", &ScriptWorld::Seen},
      {"gone", &ScriptWorld::Gone},
      {"stop", &ScriptWorld::Stop},
      {"wait", &ScriptWorld::Wait},
      {"proof", &ScriptWorld::Prove},
      {"netns-ends", &ScriptWorld::LoseNetns},
      {"show", &ScriptWorld::Show},
  };
  return kCommands;
}

std::vector<std::string> ScriptWorld::Run(const std::string& command) {
  lines_.clear();
  std::istringstream in(command);
  ScriptWords words;
  for (std::string word; in >> word;) words.push_back(word);
  const auto found = std::ranges::find_if(Commands(), [&](const Command& one) { return one.first_word == words[0]; });
  if (found == Commands().end()) {
    Complain("\"" + command + "\" is no command");
  } else if (current_.empty() && words[0] != "agent" && words[0] != "block" && words[0] != "netns-ends") {
    Complain("there is no block yet");
  } else {
    (this->*found->handler)(words);
  }
  for (const auto& [name, state] : core_.blocks()) {
    if (const auto broken = FindBrokenInvariant(*state)) Say("BROKEN: " + *broken);
  }
  return lines_;
}

void ScriptWorld::StartAgent(const ScriptWords& words) {
  core_ = Core(OptionsOf(words, ended_netns_));
  states_.clear();
  for (auto& [name, at_server] : server_) at_server.asked.reset();
  asked_for_.clear();
  Prove({});
}

void ScriptWorld::Edit(const ScriptWords& words, std::size_t first, ipam::Block& block) {
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (const auto version = After(word, "version=")) {
      block.resource_version = *version;
    } else if (const auto standby = After(word, "standby=")) {
      block.standby = OffsetsIn(*standby);
    } else if (const auto agent = After(word, "agent=")) {
      block.agent = *agent == "-" ? "" : *agent;
    } else if (const auto uid = After(word, "uid=")) {
      block.uid = *uid;
    } else if (const auto node = After(word, "node=")) {
      block.node = *node;
    } else if (word == "deleting") {
      block.deleting = true;
    } else if (const auto address = ipam::Address::Parse(word.substr(0, word.find('=')));
               address && block.cidr.Contains(*address) && word.contains('=')) {
      const auto offset = static_cast<ipam::BlockOffset>(block.cidr.OffsetOf(*address));
      const std::string shown = word.substr(word.find('=') + 1);
      block.allocations.erase(offset);
      if (shown != "-") block.allocations[offset] = EntryText(shown);
    } else {
      Complain("\"" + word + "\" says nothing about a block");
    }
  }
}

void ScriptWorld::Store(ipam::Block block) {
  if (block.resource_version == Here().stored.resource_version)
    block.resource_version = std::to_string(last_version_ + 1);
  last_version_ = std::max(last_version_, VersionOf(block));
  Here().stored = std::move(block);
}

// block CIDR WORDS [over WORDS]
void ScriptWorld::TakeOver(const ScriptWords& words) {
  const auto over = std::ranges::find(words, "over");
  ipam::Block block = EmptyBlock(*pool_, words.at(1));
  block.resource_version = std::to_string(last_version_ + 2);
  Edit(ScriptWords(words.begin(), over), 2, block);
  if (block.agent.empty()) block.agent = core_.NextFence();
  ipam::Block before = block;
  before.resource_version = std::to_string(VersionOf(block) - 1);
  before.agent = "";
  if (over != words.end()) Edit(ScriptWords(over, words.end()), 1, before);
  current_ = block.name;
  server_[current_] = {.stored = block, .asked = std::nullopt, .asked_at = now_};
  last_version_ = std::max(last_version_, VersionOf(block));
  News news;
  core_.Insert(std::make_shared<const ipam::Block>(block), std::make_shared<const ipam::Block>(before), now_, news);
  states_[current_] = core_.Find(current_);
  Tell(news);
}

void ScriptWorld::Use(const ScriptWords& words) {
  const std::string name = EmptyBlock(*pool_, words.at(1)).name;
  if (!server_.contains(name)) return Complain("there is no block " + name);
  current_ = name;
}

// submit nothing, or submit NAME take|release|mark [ADDRESS] [deferred] [within COUNT s]
void ScriptWorld::Submit(const ScriptWords& words) {
  ipam::Change change;
  const AskedFor asked{.name = words.at(1), .what = words[1] == "nothing" ? "nothing" : words.at(2)};
  if (asked.what == "take") {
    change = Taking(pool_, asked.name);
    change.may_take_standby = false;
    auto& take = std::get<ipam::TakeAddress>(change.what);
    if (words.size() > 3 && words[3].contains('.')) take.requested = ipam::Address::Parse(words[3]).value();
  } else if (asked.what == "release") {
    change = Releasing(asked.name);
  } else if (asked.what == "mark") {
    change = {.attachment = AttachmentNamed(asked.name), .what = ipam::MarkSibling{AttachmentNamed(asked.name)}};
  } else if (asked.what != "nothing") {
    return Complain("a1 can \"take\", \"release\" or \"mark\"");
  }
  const ChangeId id = HasWord(words, "deferred")
                          ? core_.SubmitDeferred(*State(), change, Core::LingerOf(*State()), now_)
                          : core_.Submit(*State(), change, DeadlineIn(words, now_.steady));
  asked_for_[id] = asked;
}

void ScriptWorld::Withdraw(const ScriptWords& words) {
  for (const auto& [id, asked] : asked_for_) {
    if (asked.name == words.at(1)) return Say(Core::Withdraw(*State(), id) ? "withdrawn" : "too late");
  }
  Complain("nothing was submitted for it");
}

void ScriptWorld::HandOut(const ScriptWords& words) {
  const auto given = core_.HandOut(*State(), Taking(pool_, words.at(1)), now_);
  if (!given) return Say("nothing is handed out");
  asked_for_[given->id] = {.name = words[1], .what = "hand-out"};
  const auto offset = ipam::Find(*given->block, AttachmentNamed(words[1]));
  Say(words[1] + " gets " + (offset ? given->block->cidr.At(*offset).ToString() : "nothing"));
}

// resume NAME ADDRESS [uid=UID]
void ScriptWorld::Resume(const ScriptWords& words) {
  const ipam::Address address = ipam::Address::Parse(words.at(2)).value();
  const std::string uid = words.size() > 3 ? words[3].substr(4) : "uid-1";
  HandedOut note{.attachment = AttachmentNamed(words[1]), .entry = EntryText(words[1])};
  News news;
  const auto offset = static_cast<ipam::BlockOffset>(Here().stored.cidr.OffsetOf(address));
  const ChangeId id = core_.Resume(uid, offset, std::move(note), current_, news);
  if (id != 0) asked_for_[id] = {.name = words[1], .what = "hand-out"};
  Tell(news);
  Say(id == 0 ? "nothing is left to be written" : words[1] + " goes with the next write");
}

void ScriptWorld::WriteWhatIsLeft(const ScriptWords& /*words*/) {
  for (const ChangeId id : core_.WriteWhatIsLeft(now_)) {
    asked_for_[id] = {.name = "what is left", .what = "nothing"};
  }
}

void ScriptWorld::Begin(const ScriptWords& words) {
  BlockState& state = *State();
  if (state.is_sending) return Complain("a batch is being sent");
  if (state.queue.empty()) return Say("nothing waits");
  // OwnBlocks waits until the deadline of the caller with the most time; without a caller, for the time limit of a
  // request.
  SteadyTime deadline = now_.steady;
  for (const PendingChange& one : state.queue) deadline = std::max(deadline, one.deadline);
  state.is_sending = true;
  const bool has_own = HasWord(words, "within") || CountCallers(state.queue) == 0;
  core_.Begin(state, has_own ? DeadlineIn(words, now_.steady) : deadline);
  Proceed();
}

template <typename Wanted>
const Wanted* ScriptWorld::AskedTo(std::string_view what) {
  const auto* const wanted = Here().asked ? std::get_if<Wanted>(&*Here().asked) : nullptr;
  if (wanted == nullptr) Complain("no " + std::string(what) + " is under way");
  return wanted;
}

// written [drops-standby]
void ScriptWorld::Written(const ScriptWords& words) {
  const auto* const write = AskedTo<Write>("write");
  if (write == nullptr) return;
  if (write->before->resource_version != Here().stored.resource_version) {
    return Complain("the stored version is " + Here().stored.resource_version);
  }
  ipam::Block after = write->after;
  if (HasWord(words, "drops-standby")) after.standby.clear();
  Store(std::move(after));
  Answer(std::make_shared<const ipam::Block>(Here().stored));
}

// lost [landed [WORDS]]: the patch is stored, and then others write WORDS.
void ScriptWorld::Lose(const ScriptWords& words) {
  const auto* const write = AskedTo<Write>("write");
  if (write == nullptr) return;
  if (HasWord(words, "landed")) {
    Store(write->after);
    if (words.size() > 2) Others(words);
  }
  Answer(Fail(ErrorCode::kUnknownOutcome, "no answer"));
}

// conflict [WORDS], refused, unavailable, not-found
void ScriptWorld::FailRequest(const ScriptWords& words) {
  if (!Here().asked) return Complain("no request is under way");
  if (words[0] == "conflict") {
    if (words.size() > 1) {
      ipam::Block block = Here().stored;
      Edit(words, 1, block);
      Store(std::move(block));
    }
    return Answer(Fail(ErrorCode::kConflict, "the object has been modified"));
  }
  if (words[0] == "refused") return Answer(Fail(ErrorCode::kInvalid, "a policy refuses it"));
  if (words[0] == "not-found") return Answer(Fail(ErrorCode::kNotFound, "not found"));
  Answer(Fail(ErrorCode::kUnavailable, "the API server is away"));
}

void ScriptWorld::AnswerRead(const ScriptWords& words) {
  if (AskedTo<Read>("read") == nullptr) return;
  if (words.size() > 1) {
    ipam::Block block = Here().stored;
    Edit(words, 1, block);
    Store(std::move(block));
  }
  Answer(std::make_shared<const ipam::Block>(Here().stored));
}

// others write WORDS
void ScriptWorld::Others(const ScriptWords& words) {
  ipam::Block block = Here().stored;
  Edit(words, 2, block);
  Store(std::move(block));
}

// seen [WORDS]: others write WORDS, and a watch shows the block.
void ScriptWorld::Seen(const ScriptWords& words) {
  if (words.size() > 1) {
    ipam::Block block = Here().stored;
    Edit(words, 1, block);
    Store(std::move(block));
  }
  const auto view = std::make_shared<const ipam::Block>(Here().stored);
  BlockState& state = *State();
  if (state.is_sending) {
    Core::KeepUntilEnd(state, view);
    return Say("it is looked at after the batch");
  }
  News news;
  core_.Adopt(state, view, now_, news);
  Tell(news);
}

void ScriptWorld::Gone(const ScriptWords& /*words*/) {
  News news;
  core_.Forget(*State(), news);
  Tell(news);
}

void ScriptWorld::Stop(const ScriptWords& /*words*/) {
  core_.Stop();
  Tell(core_.EndDeferred());
}

// wait COUNT s|ms
void ScriptWorld::Wait(const ScriptWords& words) {
  const std::chrono::milliseconds one(words.at(2) == "s" ? 1000 : 1);
  now_.steady += one * NumberIn(words.at(1));
  now_.since_boot += one * NumberIn(words.at(1));
}

// proof [drops-standby]
void ScriptWorld::Prove(const ScriptWords& words) {
  News news;
  core_.TakeProof(now_.since_boot, !HasWord(words, "drops-standby"), now_, news);
  Tell(news);
}

// netns-ends NAME
void ScriptWorld::LoseNetns(const ScriptWords& words) { ended_netns_.insert("ns-" + words.at(1)); }

void ScriptWorld::Proceed() {
  BlockState& state = *State();
  if (!state.is_sending) return Complain("no batch is being sent");
  News news;
  Step step = core_.Next(state, now_, news);
  Tell(news);
  Here().asked_at = now_;
  const auto is_batch = [&](const Report& report) {
    return report.kind == Report::Kind::kBatch && report.block == current_ &&
           report.count == state.rounds.front().changes.size();
  };
  if (const auto* write = std::get_if<Write>(&step)) {
    if (std::ranges::none_of(news.reports, is_batch)) Complain("the number of changes is not reported");
    Say("write version=" + write->before->resource_version + ": " + ShownDifference(*write->before, write->after) +
        (write->asks_for_all ? " (asks for the whole block)" : ""));
  } else if (std::holds_alternative<Read>(step)) {
    Say("read");
  } else {
    Say("done");
    Here().asked.reset();
    if (const ipam::BlockView observed = Core::End(state)) {
      News later;
      core_.Adopt(state, observed, now_, later);
      Tell(later);
    }
    return;
  }
  Here().asked = std::move(step);
}

void ScriptWorld::Answer(const Expected<ipam::BlockView>& answer) {
  News news;
  core_.Answer(*State(), answer, Here().asked_at, now_, news);
  Tell(news);
  Proceed();
}

}  // namespace berth::agent_core
