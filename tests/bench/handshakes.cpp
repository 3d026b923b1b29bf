// bench_handshakes PORT SECONDS [--resume] [--path P] [--watch-pid PID]: TLS connections one after the other,
// each with one request: what a full or a resumed handshake costs the server. Prints one JSON object.
//
// With --resume each connection brings the newest ticket that the server gave, and must be resumed with it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "bench_handshakes: %s\n", what.c_str());
  std::exit(1);
}

struct Options {
  int port = 0;
  double seconds = 1;
  bool resume = false;
  std::string path = "/";
  std::string pid;
};

Options parse(int argc, char** argv) {
  Options options;
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_handshakes PORT SECONDS [--resume] [--path P] [--watch-pid PID]\n");
    std::exit(64);
  }
  options.port = std::atoi(argv[1]);
  options.seconds = std::atof(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--resume")
      options.resume = true;
    else if (word == "--path" && i + 1 < argc)
      options.path = argv[++i];
    else if (word == "--watch-pid" && i + 1 < argc)
      options.pid = argv[++i];
    else
      die("what is " + word + "?");
  }
  return options;
}

// The time that all threads of the server have run so far.
double cpu_ns(const std::string& pid) {
  double sum = 0;
  if (pid.empty()) return sum;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
    std::ifstream file(task.path() / "schedstat");
    double ran = 0;
    if (file >> ran) sum += ran;
  }
  return sum;
}

SSL_SESSION* newest = nullptr;

int keep_session(SSL*, SSL_SESSION* session) {
  SSL_SESSION_free(newest);
  newest = session;
  return 1;
}

int connect_to(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) die("cannot connect");
  // The port must not stay in TIME_WAIT: some ten thousand connections come from here.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  return fd;
}

// One connection with one request. Whether it was resumed.
bool ask_once(SSL_CTX* context, const Options& options, const std::string& request) {
  const int fd = connect_to(options.port);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, fd);
  SSL_set_tlsext_host_name(ssl, "localhost");
  if (options.resume && newest != nullptr) SSL_set_session(ssl, newest);
  if (SSL_connect(ssl) != 1) die("the handshake failed");
  if (SSL_write(ssl, request.data(), static_cast<int>(request.size())) <= 0) die("cannot write");
  std::string answer;
  char piece[16384];
  for (int got; (got = SSL_read(ssl, piece, sizeof piece)) > 0;) {
    answer.append(piece, static_cast<std::size_t>(got));
    // `Connection: close`, so the end of the answer is the end of the connection.
  }
  if (!answer.starts_with("HTTP/1.1 200 ")) die("answered " + answer.substr(0, 40));
  const bool resumed = SSL_session_reused(ssl) == 1;
  SSL_shutdown(ssl);  // or OpenSSL calls its session bad, and does not resume it
  SSL_free(ssl);
  close(fd);
  return resumed;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, keep_session);
  const std::string request =
      "GET " + options.path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  for (int i = 0; i < 20; ++i) ask_once(context, options, request);
  using Clock = std::chrono::steady_clock;
  const double before = cpu_ns(options.pid);
  const auto began = Clock::now();
  double passed = 0;
  unsigned long count = 0, resumed = 0;
  while (passed < options.seconds) {
    resumed += ask_once(context, options, request) ? 1 : 0;
    ++count;
    passed = std::chrono::duration<double>(Clock::now() - began).count();
  }
  if (options.resume && resumed != count) die("not every connection was resumed");
  std::printf(R"({"handshakes":%lu,"resumed":%lu,"seconds":%.3f,"handshakes_s":%.1f,"server_cpu_ns":%.0f})"
              "\n",
              count, resumed, passed, static_cast<double>(count) / passed,
              (cpu_ns(options.pid) - before) / static_cast<double>(count));
  return 0;
}
