#include "serve/host.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <stdexcept>

#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

// A process of its own for each: a host takes over signals and ends by leaving.
struct Hosting {
  config::Schema schema;
  config::ServerKeys keys = config::declare_server_keys(schema, {.alone = true});
  HostOptions options;

  Hosting() {
    options.sources = [](Reading) {
      config::Sources sources;
      for (auto [key, value] : {std::pair("server.bind", "127.0.0.1:0"), std::pair("server.shards", "1"),
                                std::pair("timeouts.drain", "1s")})
        sources.settings.push_back({key, value, "the test"});
      return std::expected<config::Sources, std::string>(std::move(sources));
    };
    options.build = {"1", "2", "3"};
    options.ready = [](std::span<const Served>) { ::kill(::getpid(), SIGTERM); };
    options.complain = [](const std::string&) {};
  }
  [[noreturn]] void run(SampleState state = {}) {
    HostedService hosted;
    hosted.schema = &schema;
    hosted.keys = keys;
    hosted.open_access = true;
    hosted.make = [&](const config::Snapshot&) -> std::expected<std::unique_ptr<Service>, std::string> {
      auto service = std::make_unique<SampleService>();
      service->state = state;
      return service;
    };
    std::vector<HostedService> all;
    all.push_back(std::move(hosted));
    std::exit(run_host(std::move(all), options));
  }
};

TEST(Host, a_signal_ends_it_with_0) { EXPECT_EXIT(Hosting().run(), testing::ExitedWithCode(exit_ok), ""); }

// The second reading is that of a SIGHUP, sent while the services run.
TEST(Host, a_reload_is_not_read_on_a_shard) {
  const auto reload = [] {
    Hosting hosting;
    const auto read = hosting.options.sources;
    int readings = 0;
    hosting.options.sources = [&readings, read](Reading reading) {
      if (++readings == 2) {
        if (current_shard() != nullptr) ::_exit(3);
        ::kill(::getpid(), SIGTERM);
      }
      return read(reading);
    };
    hosting.options.ready = [](std::span<const Served>) { ::kill(::getpid(), SIGHUP); };
    hosting.run();
  };
  EXPECT_EXIT(reload(), testing::ExitedWithCode(exit_ok), "");
}

TEST(Host, a_lost_host_task_ends_the_process_with_a_code) {
  const auto lose = [] {
    Hosting hosting;
    hosting.options.ready = [](std::span<const Served>) { throw std::runtime_error("stderr is full"); };
    hosting.run();
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(exit_failed), "the host is lost.*stderr is full");
}

// It was asked to do something beside the services, which fails again and again; they go on.
TEST(Host, what_fails_beside_the_services_neither_ends_them_nor_keeps_them_from_ending) {
  const auto fail_beside = [] {
    Hosting hosting;
    hosting.options.ready = [](std::span<const Served>) {};
    hosting.options.afterwards = [](Call, io::Machine*, std::vector<Served>) -> Task<> {
      ::kill(::getpid(), SIGTERM);
      throw std::runtime_error("the registry says no");
      co_return;
    };
    hosting.run();
  };
  EXPECT_EXIT(fail_beside(), testing::ExitedWithCode(exit_ok), "the registry says no");
}

// The stop would take longer than any grace: it is cut off, and the process has left in time.
TEST(Host, a_stop_that_never_ends_is_left_behind) {
  const auto hang = [] {
    SampleState state;
    state.stop_takes = Duration::seconds(3600);
    Hosting().run(std::move(state));
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(exit_aborted), "");
}

}  // namespace
}  // namespace cairn::serve
