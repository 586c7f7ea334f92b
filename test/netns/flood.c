/*
 * Load for tests between namespaces of their own.
 *
 * flood SOURCE COUNT DESTINATION PORT RATE SECONDS: SYN packets of IPv4 from COUNT addresses beginning with SOURCE, RATE a second. Prints
 * the number that was sent.
 * ask DESTINATION PORT COUNT GAP: COUNT connections one after the other, a GAP of microseconds between them. Prints the microseconds that
 * each took until it was open, or -1 where it was not open within a second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static uint16_t folded(const uint8_t *bytes, int length, uint32_t sum) {
  for (int i = 0; i + 1 < length; i += 2) sum += bytes[i] << 8 | bytes[i + 1];
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

static void write_syn(uint8_t *packet, uint32_t source, uint32_t destination, int port, uint64_t number, uint32_t sources) {
  struct iphdr *ip = (void *)packet;
  struct tcphdr *tcp = (void *)(packet + 20);
  memset(packet, 0, 40);
  ip->version = 4;
  ip->ihl = 5;
  ip->ttl = 64;
  ip->protocol = IPPROTO_TCP;
  ip->tot_len = htons(40);
  ip->saddr = htonl(source + number % sources);
  ip->daddr = destination;
  tcp->source = htons(1024 + number / sources % 64000);
  tcp->dest = htons(port);
  tcp->seq = htonl(number * 2654435761u);
  tcp->doff = 5;
  tcp->syn = 1;
  tcp->window = htons(1024);
  uint8_t pseudo[12] = {[9] = IPPROTO_TCP, [11] = 20};
  memcpy(pseudo, &ip->saddr, 8);
  tcp->check = htons(~folded(packet + 20, 20, folded(pseudo, 12, 0)));
}

static int flood(char **v) {
  uint32_t source = ntohl(inet_addr(v[0])), sources = atoi(v[1]), destination = inet_addr(v[2]);
  int port = atoi(v[3]), rate = atoi(v[4]), seconds = atoi(v[5]);
  int raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
  if (raw < 0) return perror("socket"), 1;
  static uint8_t packets[BATCH][40];
  static struct mmsghdr messages[BATCH];
  static struct iovec parts[BATCH];
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = destination};
  for (int i = 0; i < BATCH; i++) {
    parts[i] = (struct iovec){packets[i], 40};
    messages[i].msg_hdr = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &parts[i], .msg_iovlen = 1};
  }
  uint64_t sent = 0;
  for (double start = now(), passed = 0; (passed = now() - start) < seconds;) {
    if (sent > passed * rate) {
      usleep(200);
      continue;
    }
    for (int i = 0; i < BATCH; i++) write_syn(packets[i], source, destination, port, sent + i, sources);
    int count = sendmmsg(raw, messages, BATCH, 0);
    if (count < 0) return perror("sendmmsg"), 1;
    sent += count;
  }
  printf("%llu\n", (unsigned long long)sent);
  return 0;
}

/* Microseconds; -1 where it is not open within a second. */
static double opening(const struct sockaddr_in *to) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct linger hard = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  double start = now(), took = -1;
  struct pollfd writable = {fd, POLLOUT, 0};
  int error = 0;
  socklen_t length = sizeof error;
  connect(fd, (const void *)to, sizeof *to);
  if (poll(&writable, 1, 1000) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0)
    took = (now() - start) * 1e6;
  close(fd);
  return took;
}

static int ask(char **v) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(v[0]), .sin_port = htons(atoi(v[1]))};
  for (int i = 0; i < atoi(v[2]); i++) {
    printf("%.1f\n", opening(&to));
    usleep(atoi(v[3]));
  }
  return 0;
}

int main(int count, char **words) {
  if (count == 8 && strcmp(words[1], "flood") == 0) return flood(words + 2);
  if (count == 6 && strcmp(words[1], "ask") == 0) return ask(words + 2);
  fprintf(stderr, "usage: flood SOURCE COUNT DESTINATION PORT RATE SECONDS | ask DESTINATION PORT COUNT GAP\n");
  return 2;
}
