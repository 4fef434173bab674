// Facts about files that an earlier process of the recording has looked up, by a key that changes when the file is replaced or modified.
#pragma once
#include "spool/spool.hpp"

#include <sys/stat.h>
#include <cstdint>
#include <string_view>

namespace aiflame::spool {

// `purpose`: the kind of fact, with the name of the file if that matters.
inline uint64_t key_of(const struct stat& file, std::string_view purpose) noexcept {
  Hash hash;
  hash.add(file.st_dev);
  hash.add(file.st_ino);
  hash.add(static_cast<uint64_t>(file.st_ctim.tv_sec) << 30 ^ static_cast<uint64_t>(file.st_ctim.tv_nsec));
  for (char letter : purpose) hash.add(static_cast<unsigned char>(letter));
  return hash.state | 1;
}

}  // namespace aiflame::spool
