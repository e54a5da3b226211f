// SPDX-License-Identifier: Apache-2.0
// Files: the simulated machines' files below /sim, in memory.
//
// A process that dies loses its descriptors and thereby its file locks, but its files stay. A power cut keeps
// everything that was synced, and a random part of the rest: the first bytes that were added to a file, and the first
// changes of a folder's names, in their order.
//
// libc.cc calls these functions, which return what the C library's functions return, and set errno. They support what
// berth uses: there are no links, no modes and no owners.
#pragma once

#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/types.h>
#include <vector>

namespace berth::sim {

// All paths below this folder are simulated, and no others.
inline constexpr std::string_view kFiles = "/sim/";

[[nodiscard]] bool IsSimulated(int descriptor);
[[nodiscard]] bool IsSimulated(const char* path);

// `at` is a simulated folder, here and below. If the path is absolute, `at` is ignored.
[[nodiscard]] int OpenFile(int at, const char* path, int flags);
int CloseFile(int descriptor);
[[nodiscard]] ssize_t ReadFile(int descriptor, void* buffer, std::size_t bytes);
[[nodiscard]] ssize_t WriteFile(int descriptor, const void* bytes, std::size_t count);
[[nodiscard]] int TruncateFile(int descriptor, off_t bytes);
// Syncs a file's content, or a folder's names.
[[nodiscard]] int SyncFile(int descriptor);
[[nodiscard]] int StatFile(int descriptor, struct stat* facts);
void SetFileTime(int descriptor, const timespec& modified);
// Like flock(2) with LOCK_NB.
[[nodiscard]] int TryLockFile(int descriptor, int operation);
// The address at which fibers wait for the file's lock (AwaitAt in scheduler.h). They are woken when the lock may be
// free.
[[nodiscard]] const void* LockOfFile(int descriptor);
// Like getdents64(2).
[[nodiscard]] ssize_t ReadNames(int descriptor, void* buffer, std::size_t bytes);
[[nodiscard]] bool IsFile(const char* path);
[[nodiscard]] int MakeFolder(int at, const char* path);
[[nodiscard]] int RenameFile(int from, const char* path, int to, const char* new_path);
[[nodiscard]] int RemoveFile(int at, const char* path);

// --- For the world --------------------------------------------------------------------------------------------------

// Makes a folder and the folders above it, and syncs them.
void MakeFolders(const std::string& path);
// Makes an empty folder whose files are in memory only, as in a tmpfs. Removes what was there before.
void MakeMemoryDisk(const std::string& path);
// Removes the folder and everything in it. Does nothing if the folder does not exist.
void RemoveTree(const std::string& path);
// Removes all files below the folder whose path contains the text.
void RemoveFilesLike(const std::string& folder, std::string_view text);
// The paths of all files in the folder and below it.
[[nodiscard]] std::vector<std::string> FilesIn(const std::string& folder);
// Syncs everything in the folder, as when a machine goes down in order.
void SyncTree(const std::string& folder);
// For plants (plants.h): from now on, a sync does nothing if the name of its process contains this text.
void IgnoreSyncsOf(const std::string& process);
// Destroys what a power cut may destroy in the folder. Requires: no file in the folder is open.
void CutPower(const std::string& folder);

}  // namespace berth::sim
