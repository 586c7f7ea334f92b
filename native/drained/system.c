#include "system.h"

#include <asm/errno.h>
#include <asm/fcntl.h>
#include <asm/poll.h>
#include <asm/socket.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/signalfd.h>
#include <linux/tcp.h>
#include <linux/time_types.h>

static long call(long number, long a, long b, long c, long d) {
  return system_call(number, a, b, c, d, 0, 0);
}

long read_file(const char *path, char *bytes, size_t most) {
  long file = call(__NR_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  if (file < 0) return file;
  size_t length = 0;
  long read = 0;
  while (length < most) {
    read = call(__NR_read, file, (long)(bytes + length), (long)(most - length), 0);
    if (read == -EINTR) continue;
    if (read <= 0) break;
    length += (size_t)read;
  }
  close_descriptor((int)file);
  return read < 0 ? read : (long)length;
}

static const struct {
  int number;
  const char *name;
  /* As Node.js says it; NULL where no file has this error. */
  const char *text;
} ERRORS[] = {
    {EPERM, "EPERM", "operation not permitted"},
    {ENOENT, "ENOENT", "no such file or directory"},
    {EIO, "EIO", "i/o error"},
    {ENOMEM, "ENOMEM", "not enough memory"},
    {EACCES, "EACCES", "permission denied"},
    {ENOTDIR, "ENOTDIR", "not a directory"},
    {EISDIR, "EISDIR", "illegal operation on a directory"},
    {EINVAL, "EINVAL", "invalid argument"},
    {ENFILE, "ENFILE", "file table overflow"},
    {EMFILE, "EMFILE", "too many open files"},
    {ELOOP, "ELOOP", "too many symbolic links encountered"},
    {EPIPE, "EPIPE", NULL},
    {EAFNOSUPPORT, "EAFNOSUPPORT", NULL},
    {EADDRNOTAVAIL, "EADDRNOTAVAIL", NULL},
    {ENETDOWN, "ENETDOWN", NULL},
    {ENETUNREACH, "ENETUNREACH", NULL},
    {ECONNABORTED, "ECONNABORTED", NULL},
    {ECONNRESET, "ECONNRESET", NULL},
    {ENOBUFS, "ENOBUFS", NULL},
    {ETIMEDOUT, "ETIMEDOUT", NULL},
    {ECONNREFUSED, "ECONNREFUSED", NULL},
    {EHOSTDOWN, "EHOSTDOWN", NULL},
    {EHOSTUNREACH, "EHOSTUNREACH", NULL},
};

void put_error_name(struct sink *sink, long error) {
  for (size_t at = 0; at < sizeof ERRORS / sizeof *ERRORS; at++)
    if (ERRORS[at].number == -error) return put(sink, ERRORS[at].name);
  put(sink, "error ");
  put_number(sink, (uint64_t)-error);
}

void put_error_text(struct sink *sink, long error) {
  for (size_t at = 0; at < sizeof ERRORS / sizeof *ERRORS; at++)
    if (ERRORS[at].number == -error && ERRORS[at].text != NULL) return put(sink, ERRORS[at].text);
  put(sink, "it cannot be read");
}

/* A reader that closed its end is no error. */
static void write_out(struct output *output) {
  size_t at = 0;
  while (at < output->length) {
    long written = call(__NR_write, output->descriptor, (long)(output->bytes + at), (long)(output->length - at), 0);
    if (written == -EAGAIN) {
      wait_for(output->descriptor, POLLOUT, INT64_MAX);
      continue;
    }
    if (written == -EINTR) continue;
    if (written < 0) break;
    at += (size_t)written;
  }
  output->length = 0;
}

static void take_output(struct sink *sink, const char *bytes, size_t length) {
  struct output *output = (struct output *)sink;
  for (size_t at = 0; at < length; at++) {
    if (output->length == sizeof output->bytes) write_out(output);
    output->bytes[output->length++] = bytes[at];
  }
}

struct output output_to(int descriptor) {
  return (struct output){.sink = {take_output}, .descriptor = descriptor, .length = 0};
}

void end_output(struct output *output) {
  while (output->length > 0) {
    char last = output->bytes[output->length - 1];
    if (last != ' ' && !(last >= '\t' && last <= '\r')) break;
    output->length--;
  }
  put(&output->sink, "\n");
  write_out(output);
}

enum { SIGHUP_NUMBER = 1, SIGINT_NUMBER = 2, SIGPIPE_NUMBER = 13, SIGTERM_NUMBER = 15 };
enum { BLOCK = 0, UNBLOCK = 1 };

/* -1: signals end the process without a word. */
static int signals = -1;

void catch_signals(void) {
  // A connection or a reader that ended is seen where something is written.
  uint64_t ignored = UINT64_C(1) << (SIGPIPE_NUMBER - 1);
  uint64_t caught = UINT64_C(1) << (SIGHUP_NUMBER - 1) | UINT64_C(1) << (SIGINT_NUMBER - 1) | UINT64_C(1) << (SIGTERM_NUMBER - 1);
  call(__NR_rt_sigprocmask, BLOCK, (long)&ignored, 0, sizeof ignored);
  call(__NR_rt_sigprocmask, BLOCK, (long)&caught, 0, sizeof caught);
  signals = (int)call(__NR_signalfd4, -1, (long)&caught, sizeof caught, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) call(__NR_rt_sigprocmask, UNBLOCK, (long)&caught, 0, sizeof caught);
}

static void end_by_signal(void) {
  struct signalfd_siginfo info;
  if (call(__NR_read, signals, (long)&info, sizeof info, 0) != sizeof info) return;
  const char *name = info.ssi_signo == SIGTERM_NUMBER ? "SIGTERM" : info.ssi_signo == SIGINT_NUMBER ? "SIGINT" : "SIGHUP";
  signals = -1;
  struct output errors = output_to(2);
  put(&errors.sink, "slicewire: received ");
  put(&errors.sink, name);
  put(&errors.sink, "; the command did not finish");
  end_output(&errors);
  end_process(1);
}

bool wait_for(int descriptor, short events, int64_t deadline) {
  for (;;) {
    int64_t left = deadline - monotonic_now();
    if (left < 0) left = 0;
    struct __kernel_timespec time = {.tv_sec = left / SECOND, .tv_nsec = left % SECOND};
    struct pollfd waited[] = {{.fd = signals, .events = POLLIN}, {.fd = descriptor, .events = events}};
    long ready = system_call(__NR_ppoll, (long)waited, 2, (long)&time, 0, 0, 0);
    if (ready > 0 && waited[0].revents != 0) end_by_signal();
    if (ready > 0 && waited[1].revents != 0) return true;
    if (ready == 0 && left == 0) return false;
  }
}

void wait_until(int64_t deadline) {
  // poll(2) does not look at a negative descriptor.
  wait_for(-1, 0, deadline);
}

int open_socket(struct address address, uint16_t port, int type) {
  int family = address.length == 4 ? AF_INET : AF_INET6;
  long opened = call(__NR_socket, family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, 0);
  if (opened < 0) return (int)opened;
  uint16_t network_port = __builtin_bswap16(port);
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = network_port};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = network_port};
  memcpy(&v4.sin_addr, address.bytes, sizeof v4.sin_addr);
  memcpy(&v6.sin6_addr, address.bytes, sizeof v6.sin6_addr);
  long connected = family == AF_INET ? call(__NR_connect, opened, (long)&v4, sizeof v4, 0) : call(__NR_connect, opened, (long)&v6, sizeof v6, 0);
  if (connected == 0 || connected == -EINPROGRESS) return (int)opened;
  close_descriptor((int)opened);
  return (int)connected;
}

int finish_connecting(int socket, int64_t deadline) {
  if (!wait_for(socket, POLLOUT, deadline)) return -ETIMEDOUT;
  int error = 0;
  int size = sizeof error;
  long asked = system_call(__NR_getsockopt, socket, SOL_SOCKET, SO_ERROR, (long)&error, (long)&size, 0);
  return asked < 0 ? (int)asked : -error;
}

static void set_option(int socket, int level, int name, int value) {
  // Without it the deadline ends the question.
  system_call(__NR_setsockopt, socket, level, name, (long)&value, sizeof value, 0);
}

void keep_alive(int socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  // As libuv has them.
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 10);
}

long send_some(int socket, const void *bytes, size_t length, int64_t deadline) {
  for (;;) {
    long sent = call(__NR_sendto, socket, (long)bytes, (long)length, 0);
    if (sent != -EAGAIN && sent != -EINTR) return sent;
    if (!wait_for(socket, POLLOUT, deadline)) return -ETIMEDOUT;
  }
}

long receive_some(int socket, void *bytes, size_t most, int64_t deadline) {
  for (;;) {
    if (!wait_for(socket, POLLIN, deadline)) return -ETIMEDOUT;
    long received = call(__NR_recvfrom, socket, (long)bytes, (long)most, 0);
    if (received != -EAGAIN && received != -EINTR) return received;
  }
}

void close_descriptor(int descriptor) {
  call(__NR_close, descriptor, 0, 0, 0);
}
