// A recording into a folder of its own, which goes away at the end.
#pragma once
#include "base/clock.hpp"
#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sanitized {

class Recording {
 public:
  Recording() {
    if (!mkdtemp(folder_.data())) exit(2);
    std::filesystem::create_directory(folder_ + "/spool");
    aiflame::schema::Control page{.magic = aiflame::schema::kControlMagic,
                                  .format = aiflame::schema::kFormat,
                                  .state = static_cast<uint32_t>(aiflame::schema::ControlState::RECORDING)};
    std::vector<char> bytes(4096);
    memcpy(bytes.data(), &page, sizeof page);
    std::ofstream(folder_ + "/control", std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!aiflame::control::attach(folder_.c_str())) exit(3);
    aiflame::spool::open(aiflame::now_ns());
  }
  ~Recording() { std::filesystem::remove_all(folder_); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // The bytes of a table of this process, as they are in its file.
  std::string file(const std::string& name) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/spool")) {
      std::ifstream in(entry.path() / (name + ".table"), std::ios::binary);
      if (in) return {std::istreambuf_iterator<char>(in), {}};
    }
    return {};
  }

 private:
  std::string folder_ = std::filesystem::temp_directory_path() / "aiflame-sanitized-XXXXXX";
};

// Runs `work(number)` in so many threads at once.
template <class Work>
void in_threads(unsigned count, Work work) {
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < count; number++) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sanitized
