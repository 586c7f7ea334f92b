#include "lookup.h"

#include "system.h"

enum { DNS_PORT = 53, MOST_HOSTS = 64 << 10, MOST_RESOLVER = 8 << 10 };

static char hosts[MOST_HOSTS];
static char configuration[MOST_RESOLVER];

/* The text of a file, or of its beginning; nothing where it cannot be read, as with a container that has none. */
static struct slice text_of(const char *path, char *bytes, size_t most) {
  long length = read_file(path, bytes, most);
  return (struct slice){bytes, length < 0 ? 0 : (size_t)length};
}

struct asked {
  size_t length;
  bool is_answered;
  uint8_t message[MOST_MESSAGE];
};

/* Both families at once. LOOKUP_FAILED: this server has no answer until the deadline. */
static enum lookup ask_server(struct address server, struct slice name, int64_t deadline, struct addresses *found) {
  static const enum record RECORDS[] = {RECORD_A, RECORD_AAAA};
  struct asked asked[2] = {0};
  struct addresses of_family[2] = {0};
  bool has_failed = false;
  int socket = open_socket(server, DNS_PORT, SOCK_DGRAM);
  if (socket < 0) return LOOKUP_FAILED;
  for (int which = 0; which < 2; which++) {
    asked[which].length = write_query(name, RECORDS[which], (uint16_t)random_below(1 << 16), asked[which].message);
    if (send_some(socket, asked[which].message, asked[which].length, deadline) < 0) has_failed = true;
  }
  while (!has_failed && !(asked[0].is_answered && asked[1].is_answered)) {
    uint8_t message[MOST_MESSAGE];
    long length = receive_some(socket, message, sizeof message, deadline);
    if (length < 0) {
      has_failed = true;
      break;
    }
    for (int which = 0; which < 2; which++) {
      if (asked[which].is_answered) continue;
      enum dns_answer answer = read_dns(message, (size_t)length, asked[which].message, asked[which].length, &of_family[which]);
      if (answer == DNS_FOREIGN) continue;
      asked[which].is_answered = true;
      has_failed = has_failed || answer == DNS_FAILED;
    }
  }
  close_descriptor(socket);
  for (int which = 0; which < 2; which++)
    for (size_t at = 0; at < of_family[which].count && found->count < MOST_ADDRESSES; at++)
      found->list[found->count++] = of_family[which].list[at];
  if (found->count > 0) return LOOKUP_FOUND;
  return has_failed ? LOOKUP_FAILED : LOOKUP_NO_NAME;
}

static enum lookup ask_servers(const struct resolver *resolver, struct slice name, int64_t deadline, struct addresses *found) {
  uint8_t message[MOST_MESSAGE];
  if (write_query(name, RECORD_A, 0, message) == 0) return LOOKUP_NO_NAME;
  for (uint64_t attempt = 0; attempt < resolver->attempts; attempt++) {
    for (size_t at = 0; at < resolver->servers; at++) {
      int64_t patience = monotonic_now() + (int64_t)resolver->timeout * SECOND;
      enum lookup result = ask_server(resolver->server[at], name, patience < deadline ? patience : deadline, found);
      if (result != LOOKUP_FAILED) return result;
    }
  }
  return LOOKUP_FAILED;
}

/* The name in one of the domains that are searched. Nothing where that is too long. */
static enum lookup ask_in_domain(const struct resolver *resolver, struct slice name, struct slice domain, int64_t deadline, struct addresses *found) {
  char bytes[MOST_NAME];
  struct text whole = TEXT_IN(bytes);
  put_slice(&whole.sink, name);
  put(&whole.sink, ".");
  put_slice(&whole.sink, domain);
  return whole.is_cut ? LOOKUP_NO_NAME : ask_servers(resolver, kept(&whole), deadline, found);
}

enum lookup look_up(struct slice name, int64_t deadline, struct addresses *found) {
  found->count = 0;
  find_in_hosts(text_of("/etc/hosts", hosts, sizeof hosts), name, found);
  if (found->count > 0) return LOOKUP_FOUND;
  struct resolver resolver = read_resolver(text_of("/etc/resolv.conf", configuration, sizeof configuration));
  uint64_t dots = 0;
  for (size_t at = 0; at < name.length; at++) dots += name.at[at] == '.';
  bool is_whole = name.at[name.length - 1] == '.';
  bool is_first = is_whole || dots >= resolver.ndots;
  enum lookup result = is_first ? ask_servers(&resolver, name, deadline, found) : LOOKUP_NO_NAME;
  // After a server that cannot tell now, another domain could have another host of this name.
  for (size_t at = 0; !is_whole && at < resolver.searched && result == LOOKUP_NO_NAME; at++)
    result = ask_in_domain(&resolver, name, resolver.search[at], deadline, found);
  return is_first || result != LOOKUP_NO_NAME ? result : ask_servers(&resolver, name, deadline, found);
}
