// SPDX-License-Identifier: Apache-2.0
// Files: what simulated processes keep below /sim, in memory, as a kernel keeps it.
//
// A process that dies loses its descriptors, and with them its locks; what it wrote is there for others. A machine
// whose power is cut keeps what it had synced, and chance says what else: of a file that grew a part of what was added,
// of a folder as many of the latest changes to its names, in their order, as had reached the disk.
//
// The calls return what the C library's of that name do, and set errno; libc.cc sends them here. They are what berth
// uses: there are no links, no modes and no owners.
#pragma once

#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/types.h>
#include <vector>

namespace berth::sim {

// All paths below it are simulated, and no other.
inline constexpr std::string_view kFiles = "/sim/";

[[nodiscard]] bool IsSimulated(int descriptor);
[[nodiscard]] bool IsSimulated(const char* path);

// `at` is a simulated folder, or anything if the path is absolute; as of all that are given one.
[[nodiscard]] int OpenFile(int at, const char* path, int flags);
int CloseFile(int descriptor);
[[nodiscard]] ssize_t ReadFile(int descriptor, void* buffer, std::size_t bytes);
[[nodiscard]] ssize_t WriteFile(int descriptor, const void* bytes, std::size_t count);
[[nodiscard]] int TruncateFile(int descriptor, off_t bytes);
// Of a folder: its names.
[[nodiscard]] int SyncFile(int descriptor);
[[nodiscard]] int StatFile(int descriptor, struct stat* facts);
void SetFileTime(int descriptor, const timespec& modified);
// As flock(2) with LOCK_NB.
[[nodiscard]] int TryLockFile(int descriptor, int operation);
// Where those wait who want its lock (scheduler.h): they are woken when it may be had.
[[nodiscard]] const void* LockOfFile(int descriptor);
// As getdents64(2).
[[nodiscard]] ssize_t ReadNames(int descriptor, void* buffer, std::size_t bytes);
[[nodiscard]] bool IsFile(const char* path);
[[nodiscard]] int MakeFolder(int at, const char* path);
[[nodiscard]] int RenameFile(int from, const char* path, int to, const char* new_path);
[[nodiscard]] int RemoveFile(int at, const char* path);

// --- For the world --------------------------------------------------------------------------------------------------

// With those above it; they are on the disk.
void MakeFolders(const std::string& path);
// Anew, and empty.
void MakeMemoryDisk(const std::string& path);
// With all that is in it. Nothing happens if it is not there.
void RemoveTree(const std::string& path);
// All files below a folder whose path holds that text.
void RemoveFilesLike(const std::string& folder, std::string_view text);
// In it and below.
[[nodiscard]] std::vector<std::string> FilesIn(const std::string& folder);
// All of it is on the disk, as when a machine goes down in order.
void SyncTree(const std::string& folder);
// What is planted (plants.h): from now on no sync does anything of processes whose name has this in it.
void IgnoreSyncsOf(const std::string& process);
// What is left of a folder after that. Requires: nobody has a file in it open.
void CutPower(const std::string& folder);

}  // namespace berth::sim
