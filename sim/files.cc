// SPDX-License-Identifier: Apache-2.0
// Inodes, descriptions of open files, and a table of descriptors.
#include "sim/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <sys/file.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "sim/scheduler.h"

namespace berth::sim {
namespace {

// The first simulated descriptor. No real descriptor is as large.
constexpr int kFirst = 1 << 20;

struct Inode;
using InodePointer = std::shared_ptr<Inode>;
using Names = std::map<std::string, InodePointer, std::less<>>;
struct Description;

struct Inode {
  bool is_folder = false;
  bool is_in_memory = false;  // this and everything below it never reach a disk
  int links = 1;
  timespec modified{};
  std::string data;
  std::string synced;  // the data that is on the disk
  Names names;
  Names synced_names;
  // Changes of names since the last sync. A power cut keeps or destroys each change as a whole. Null: the name is gone.
  std::vector<std::vector<std::pair<std::string, InodePointer>>> unsynced;
  std::vector<const Description*> holders;  // holders of the lock: one, or several that share it
  bool is_shared = false;
};

struct Description {
  InodePointer inode;
  int flags = 0;
  std::size_t offset = 0;
  std::vector<std::string> listed;  // names of a folder when its reader began
};

struct FileTable {
  InodePointer root;
  std::vector<std::unique_ptr<Description>> open;  // by descriptor, from kFirst on
  std::string syncs_nothing;                       // part of the names of processes whose syncs do nothing
};

FileTable& Table() {
  static auto* const kTable = [] {
    auto* const made = new FileTable;  // NOLINT(cppcoreguidelines-owning-memory): outlives whoever asks last
    made->root = std::make_shared<Inode>();
    made->root->is_folder = true;
    return made;
  }();
  return *kTable;
}

int Refuse(int error) {
  errno = error;
  return -1;
}

Description& Of(int descriptor) {
  auto& description = Table().open.at(static_cast<std::size_t>(descriptor - kFirst));
  BERTH_CHECK(description != nullptr);
  return *description;
}

// Nullptr: the path does not exist.
InodePointer Find(InodePointer inode, std::string_view path) {
  while (inode != nullptr && !path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty() || name == ".") continue;
    const auto found = inode->names.find(name);
    inode = found == inode->names.end() ? nullptr : found->second;
  }
  return inode;
}

// A name and its folder; no folder: the folder does not exist.
struct Place {
  InodePointer folder;
  std::string name;
  [[nodiscard]] InodePointer inode() const { return folder == nullptr ? nullptr : Find(folder, name); }
};

InodePointer Start(int at, std::string_view& path) {
  if (!path.starts_with('/')) return Of(at).inode;
  path.remove_prefix(kFiles.size() - 1);
  return Table().root;
}

Place PlaceOf(int at, std::string_view path) {
  const InodePointer start = Start(at, path);
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t end = path.rfind('/');
  if (end == std::string_view::npos) return {.folder = start, .name = std::string(path)};
  return {.folder = Find(start, path.substr(0, end)), .name = std::string(path.substr(end + 1))};
}

void Change(Inode& folder, std::vector<std::pair<std::string, InodePointer>> changes) {
  for (const auto& [name, inode] : changes) {
    const auto found = folder.names.find(name);
    if (found != folder.names.end()) --found->second->links;
    if (inode == nullptr) {
      folder.names.erase(name);
    } else {
      ++inode->links;
      folder.names[name] = inode;
    }
  }
  if (!folder.is_in_memory) folder.unsynced.push_back(std::move(changes));
}

void SyncNames(Inode& folder) {
  folder.synced_names = folder.names;
  folder.unsynced.clear();
}

// Makes an inode that has no name yet.
InodePointer New(bool is_folder) {
  const auto inode = std::make_shared<Inode>();
  inode->is_folder = is_folder;
  inode->links = 0;
  clock_gettime(CLOCK_REALTIME, &inode->modified);
  return inode;
}

void Unlock(const Description& description) {
  Inode& inode = *description.inode;
  if (std::erase(inode.holders, &description) > 0) WakeAllAt(&inode.holders);
}

// Loses a random part of what was not synced.
void Lose(Inode& inode) {
  if (inode.is_folder) {
    const auto kept = static_cast<std::ptrdiff_t>(Below(inode.unsynced.size() + 1));
    inode.names = inode.synced_names;
    const auto unsynced = std::exchange(inode.unsynced, {});
    for (auto change = unsynced.begin(); change != unsynced.begin() + kept; ++change) Change(inode, *change);
    SyncNames(inode);
    for (const auto& [name, child] : inode.names) Lose(*child);
    return;
  }
  if (inode.data == inode.synced) return;
  const std::size_t sure = inode.data.starts_with(inode.synced) ? inode.synced.size() : 0;
  const std::string grown = inode.data.substr(0, sure + Below(inode.data.size() - sure + 1));
  if (Below(3) > 0) inode.data = Below(2) == 0 ? inode.synced : grown;
  inode.synced = inode.data;
}

void CollectFolders(const InodePointer& inode, const std::string& path,
                    std::vector<std::pair<std::string, InodePointer>>& folders) {
  if (!inode->is_folder) return;
  folders.emplace_back(path, inode);
  for (const auto& [name, child] : inode->names) CollectFolders(child, path + "/" + name, folders);
}

}  // namespace

bool IsSimulated(int descriptor) { return descriptor >= kFirst; }
bool IsSimulated(const char* path) { return std::strncmp(path, kFiles.data(), kFiles.size()) == 0; }

int OpenFile(int at, const char* path, int flags) {
  const Place place = PlaceOf(at, path);
  if (place.folder == nullptr) return Refuse(ENOENT);
  InodePointer inode = place.inode();
  if (inode == nullptr && (flags & O_CREAT) == 0) return Refuse(ENOENT);
  if (inode != nullptr && (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return Refuse(EEXIST);
  if (inode != nullptr && !inode->is_folder && (flags & O_DIRECTORY) != 0) return Refuse(ENOTDIR);
  if (inode == nullptr) {
    inode = New(/*is_folder=*/false);
    Change(*place.folder, {{place.name, inode}});
  }
  if ((flags & O_TRUNC) != 0) inode->data.clear();
  auto description = std::make_unique<Description>();
  description->inode = std::move(inode);
  description->flags = flags;
  auto& open = Table().open;
  const auto free = std::ranges::find_if(open, [](const auto& one) { return one == nullptr; });
  const auto number = static_cast<int>(free - open.begin());
  if (free == open.end()) open.emplace_back();
  open[static_cast<std::size_t>(number)] = std::move(description);
  return kFirst + number;
}

int CloseFile(int descriptor) {
  Unlock(Of(descriptor));
  Table().open[static_cast<std::size_t>(descriptor - kFirst)] = nullptr;
  return 0;
}

ssize_t ReadFile(int descriptor, void* buffer, std::size_t bytes) {
  Description& file = Of(descriptor);
  if (file.inode->is_folder) return Refuse(EISDIR);
  const std::size_t begin = std::min(file.offset, file.inode->data.size());
  const std::size_t count = file.inode->data.copy(static_cast<char*>(buffer), bytes, begin);
  file.offset = begin + count;
  return static_cast<ssize_t>(count);
}

ssize_t WriteFile(int descriptor, const void* bytes, std::size_t count) {
  Description& file = Of(descriptor);
  std::string& data = file.inode->data;
  if ((file.flags & O_APPEND) != 0) file.offset = data.size();
  if (data.size() < file.offset + count) {
    const OwnWork own;
    data.resize(file.offset + count);
  }
  std::memcpy(data.data() + file.offset, bytes, count);
  file.offset += count;
  clock_gettime(CLOCK_REALTIME, &file.inode->modified);
  return static_cast<ssize_t>(count);
}

int TruncateFile(int descriptor, off_t bytes) {
  const OwnWork own;
  Of(descriptor).inode->data.resize(static_cast<std::size_t>(bytes));
  return 0;
}

int SyncFile(int descriptor) {
  const std::string& ignored = Table().syncs_nothing;
  if (!ignored.empty() && CurrentProcess()->name.find(ignored) != std::string::npos) return 0;
  Inode& inode = *Of(descriptor).inode;
  {
    const OwnWork own;
    inode.synced = inode.data;
  }
  if (inode.is_folder) SyncNames(inode);
  return 0;
}

int StatFile(int descriptor, struct stat* facts) {
  const Inode& inode = *Of(descriptor).inode;
  *facts = {};
  facts->st_mode = inode.is_folder ? S_IFDIR : S_IFREG;
  facts->st_nlink = static_cast<nlink_t>(inode.links);
  facts->st_size = static_cast<off_t>(inode.data.size());
  facts->st_mtim = inode.modified;
  return 0;
}

void SetFileTime(int descriptor, const timespec& modified) { Of(descriptor).inode->modified = modified; }

int TryLockFile(int descriptor, int operation) {
  const Description& file = Of(descriptor);
  Inode& inode = *file.inode;
  // The kernel also releases a lock of the other kind first.
  const bool had = std::ranges::find(inode.holders, &file) != inode.holders.end();
  const bool is_shared = (operation & LOCK_SH) != 0;
  if (had && is_shared == inode.is_shared && (operation & LOCK_UN) == 0) return 0;
  Unlock(file);
  if ((operation & LOCK_UN) != 0) return 0;
  if (!inode.holders.empty() && !(is_shared && inode.is_shared)) return Refuse(EWOULDBLOCK);
  inode.holders.push_back(&file);
  inode.is_shared = is_shared;
  return 0;
}

const void* LockOfFile(int descriptor) { return &Of(descriptor).inode->holders; }

ssize_t ReadNames(int descriptor, void* buffer, std::size_t bytes) {
  Description& folder = Of(descriptor);
  if (folder.offset == 0) {
    folder.listed = {".", ".."};
    for (const auto& [name, inode] : folder.inode->names) folder.listed.push_back(name);
  }
  std::size_t used = 0;
  while (folder.offset < folder.listed.size()) {
    const std::string& name = folder.listed[folder.offset];
    const std::size_t head = offsetof(dirent64, d_name);
    const std::size_t length = (head + name.size() + 1 + alignof(dirent64) - 1) / alignof(dirent64) * alignof(dirent64);
    if (used + length > bytes) break;
    auto* const entry = reinterpret_cast<dirent64*>(static_cast<char*>(buffer) + used);
    entry->d_ino = 1;
    entry->d_off = static_cast<off64_t>(++folder.offset);
    entry->d_reclen = static_cast<unsigned short>(length);
    entry->d_type = DT_UNKNOWN;
    std::memcpy(static_cast<void*>(entry->d_name), name.c_str(), name.size() + 1);
    used += length;
  }
  return static_cast<ssize_t>(used);
}

bool IsFile(const char* path) { return PlaceOf(-1, path).inode() != nullptr; }

int MakeFolder(int at, const char* path) {
  const Place place = PlaceOf(at, path);
  if (place.folder == nullptr) return Refuse(ENOENT);
  if (place.name.empty() || place.inode() != nullptr) return Refuse(EEXIST);
  const InodePointer folder = New(/*is_folder=*/true);
  folder->is_in_memory = place.folder->is_in_memory;
  Change(*place.folder, {{place.name, folder}});
  return 0;
}

int RenameFile(int from, const char* path, int to, const char* new_path) {
  const Place old = PlaceOf(from, path);
  const Place place = PlaceOf(to, new_path);
  const InodePointer inode = old.inode();
  if (inode == nullptr || place.folder == nullptr) return Refuse(ENOENT);
  BERTH_CHECK(old.folder == place.folder);  // berth renames within one folder only
  Change(*place.folder, {{place.name, inode}, {old.name, nullptr}});
  return 0;
}

int RemoveFile(int at, const char* path) {
  const Place place = PlaceOf(at, path);
  const InodePointer inode = place.inode();
  if (inode == nullptr) return Refuse(ENOENT);
  if (inode->is_folder) return Refuse(EISDIR);
  Change(*place.folder, {{place.name, nullptr}});
  return 0;
}

void MakeFolders(const std::string& path) {
  for (std::size_t end = path.find('/', kFiles.size()); true; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    static_cast<void>(MakeFolder(-1, part.c_str()));
    SyncNames(*PlaceOf(-1, part).folder);
    if (end == std::string::npos) return;
  }
}

void MakeMemoryDisk(const std::string& path) {
  RemoveTree(path);
  MakeFolders(path);
  PlaceOf(-1, path).inode()->is_in_memory = true;
}

void RemoveTree(const std::string& path) {
  const Place place = PlaceOf(-1, path);
  const InodePointer inode = place.inode();
  if (inode == nullptr) return;
  for (const auto& [name, child] : Names(inode->names)) RemoveTree(path + "/" + name);
  Change(*place.folder, {{place.name, nullptr}});
  SyncNames(*place.folder);
}

void RemoveFilesLike(const std::string& folder, std::string_view text) {
  const InodePointer root = PlaceOf(-1, folder).inode();
  if (root == nullptr) return;
  std::vector<std::pair<std::string, InodePointer>> folders;
  CollectFolders(root, folder, folders);
  for (const auto& [path, inode] : folders) {
    for (const auto& [name, child] : Names(inode->names)) {
      const std::string whole = path + "/" + name;
      if (!child->is_folder && whole.find(text) != std::string::npos) Change(*inode, {{name, nullptr}});
    }
  }
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::pair<std::string, InodePointer>> folders;
  if (const InodePointer root = PlaceOf(-1, folder).inode()) CollectFolders(root, folder, folders);
  std::vector<std::string> files;
  for (const auto& [path, inode] : folders) {
    for (const auto& [name, child] : inode->names) {
      if (!child->is_folder) files.push_back(path + "/" + name);
    }
  }
  return files;
}

void SyncTree(const std::string& folder) {
  const InodePointer root = PlaceOf(-1, folder).inode();
  std::vector<std::pair<std::string, InodePointer>> folders;
  if (root != nullptr) CollectFolders(root, folder, folders);
  for (const auto& [path, inode] : folders) {
    SyncNames(*inode);
    for (const auto& [name, child] : inode->names) child->synced = child->data;
  }
}

void IgnoreSyncsOf(const std::string& process) { Table().syncs_nothing = process; }

void CutPower(const std::string& folder) {
  if (const InodePointer inode = PlaceOf(-1, folder).inode()) Lose(*inode);
}

}  // namespace berth::sim
