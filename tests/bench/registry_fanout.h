// Fanout: how long it takes from the request that changes something until each of many subscribers knows.
//   [FO-1] One change at a time: the next begins when every subscriber has the one before it.
//   [FO-2] A subscriber knows a change when the line that names its number has arrived as a whole.
#pragma once
#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "histogram.h"
#include "registry_dialogue.h"
#include "registry_wire.h"

class Fanout {
 public:
  Fanout(const sockaddr_in& target, Play& play, std::string_view mode, uint32_t subscribers,
         std::vector<clockid_t> watched);
  // Changes something so often, and prints the figures.
  void run(uint64_t rounds);

 private:
  struct Subscriber {
    int fd = -1;
    uint64_t known = 0;  // the last change it was told of
    std::string partial;
  };
  void subscribe(const sockaddr_in& target);
  // One wait; what came is taken.
  void turn();
  void receive(Subscriber& subscriber);
  void receive_answer();
  void change();
  uint64_t number_in(std::string_view line) const;

  Play& play_;
  const bool etcd_;
  const std::vector<clockid_t> watched_;
  int epoll_;
  std::vector<Subscriber> subscribers_;
  int writer_ = -1;
  std::unique_ptr<Dialogue> dialogue_;
  std::string answer_;
  bool answered_ = false, counted_ = false;
  uint64_t began_ = 0;   // when the change was asked for; 0: none is under way
  uint64_t ready_ = 0;   // subscribers that have had their first line
  uint64_t before_ = 0;  // the newest change when this one began
  uint64_t told_ = 0;    // subscribers that know of this one
  Histogram latencies_, acknowledged_, last_;
  std::array<char, 16384> buffer_{};
};
