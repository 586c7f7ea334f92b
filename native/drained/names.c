#include "names.h"

static void add_address(struct addresses *found, struct address address) {
  if (found->count < MOST_ADDRESSES) found->list[found->count++] = address;
}

static struct slice without_comment(struct slice line) {
  for (size_t at = 0; at < line.length; at++)
    if (line.at[at] == '#' || line.at[at] == ';') line.length = at;
  return line;
}

/* ndots:5; `number` stays as it is where the word is another one. */
static void read_option(struct slice word, const char *name, uint64_t most, uint64_t *number) {
  size_t length = slice_of(name).length;
  if (!starts_with(word, name)) return;
  struct slice digits = {word.at + length, word.length - length};
  uint64_t read;
  // A number above the limit counts as the limit (resolv.conf(5)).
  if (read_number(digits, UINT32_MAX, &read)) *number = read < most ? read : most;
}

struct resolver read_resolver(struct slice text) {
  struct resolver resolver = {.ndots = 1, .timeout = 5, .attempts = 2};
  struct slice line;
  while (take_line(&text, &line)) {
    struct slice rest = without_comment(line);
    struct slice keyword;
    struct slice word;
    if (!take_word(&rest, &keyword)) continue;
    if (is_same(keyword, "nameserver")) {
      struct address address;
      if (resolver.servers < MOST_SERVERS && take_word(&rest, &word) && read_address(word, false, &address))
        resolver.server[resolver.servers++] = address;
    } else if (is_same(keyword, "search") || is_same(keyword, "domain")) {
      // The last of these lines counts.
      resolver.searched = 0;
      while (resolver.searched < MOST_SEARCHED && take_word(&rest, &word)) resolver.search[resolver.searched++] = word;
    } else if (is_same(keyword, "options")) {
      while (take_word(&rest, &word)) {
        read_option(word, "ndots:", 15, &resolver.ndots);
        read_option(word, "timeout:", 30, &resolver.timeout);
        read_option(word, "attempts:", 5, &resolver.attempts);
      }
    }
  }
  // As glibc does: the machine itself.
  if (resolver.servers == 0) resolver.server[resolver.servers++] = (struct address){4, {127, 0, 0, 1}};
  if (resolver.timeout == 0) resolver.timeout = 1;
  if (resolver.attempts == 0) resolver.attempts = 1;
  return resolver;
}

static bool is_same_name(struct slice a, struct slice b) {
  if (a.length != b.length) return false;
  for (size_t at = 0; at < a.length; at++)
    if (lower(a.at[at]) != lower(b.at[at])) return false;
  return true;
}

void find_in_hosts(struct slice text, struct slice name, struct addresses *found) {
  struct slice line;
  while (take_line(&text, &line)) {
    struct slice rest = without_comment(line);
    struct slice word;
    struct address address;
    if (!take_word(&rest, &word) || !read_address(word, false, &address)) continue;
    bool is_of = false;
    while (take_word(&rest, &word)) is_of = is_of || is_same_name(word, name);
    if (is_of) add_address(found, address);
  }
}

enum { HEADER_LENGTH = 12, MOST_LABEL = 63, CLASS_IN = 1 };

size_t write_query(struct slice name, enum record record, uint16_t id, uint8_t message[MOST_MESSAGE]) {
  if (name.length > 0 && name.at[name.length - 1] == '.') name.length--;
  if (name.length == 0 || name.length > MOST_NAME) return 0;
  // One question, and recursion is desired.
  const uint8_t header[HEADER_LENGTH] = {(uint8_t)(id >> 8), (uint8_t)id, 1, 0, 0, 1};
  __builtin_memcpy(message, header, HEADER_LENGTH);
  size_t at = HEADER_LENGTH;
  size_t label = at++;
  for (size_t place = 0; place <= name.length; place++) {
    if (place < name.length && name.at[place] != '.') {
      message[at++] = (uint8_t)name.at[place];
      continue;
    }
    size_t length = at - label - 1;
    if (length == 0 || length > MOST_LABEL) return 0;
    message[label] = (uint8_t)length;
    label = at++;
  }
  message[label] = 0;
  const uint8_t end[] = {0, (uint8_t)record, 0, CLASS_IN};
  __builtin_memcpy(message + at, end, sizeof end);
  return at + sizeof end;
}

static uint32_t two_bytes(const uint8_t *at) {
  return (uint32_t)(at[0] << 8 | at[1]);
}

/* Past a name, of which a pointer is the end: where it leads to does not matter here. 0: the message ends within it. */
static size_t past_name(const uint8_t *message, size_t length, size_t at) {
  while (at < length) {
    uint8_t size = message[at];
    if (size == 0) return at + 1;
    if ((size & 0xc0) == 0xc0) return at + 2 <= length ? at + 2 : 0;
    if (size > MOST_LABEL) return 0;
    at += 1 + (size_t)size;
  }
  return 0;
}

/* Whether the question is the one that was asked: another one's answer may come to the same port. */
static bool is_same_question(const uint8_t *message, const uint8_t *query, size_t length) {
  for (size_t at = HEADER_LENGTH; at < length; at++)
    if (lower((char)message[at]) != lower((char)query[at])) return false;
  return message[0] == query[0] && message[1] == query[1];
}

enum dns_answer read_dns(const uint8_t *message, size_t length, const uint8_t *query, size_t query_length, struct addresses *found) {
  bool is_ours = length >= query_length && (message[2] & 0x80) != 0 && two_bytes(message + 4) == 1 && is_same_question(message, query, query_length);
  if (!is_ours) return DNS_FOREIGN;
  bool is_truncated = (message[2] & 2) != 0;
  uint8_t code = message[3] & 15;
  if (code == 3) return DNS_NO_NAME;
  if (code != 0) return DNS_FAILED;
  uint32_t record = two_bytes(query + query_length - 4);
  size_t size = record == RECORD_A ? 4 : 16;
  size_t at = query_length;
  size_t before = found->count;
  for (uint32_t left = two_bytes(message + 6); left > 0; left--) {
    at = past_name(message, length, at);
    if (at == 0 || length - at < 10) break;
    bool is_address = two_bytes(message + at) == record && two_bytes(message + at + 2) == CLASS_IN;
    size_t data = two_bytes(message + at + 8);
    at += 10;
    if (length - at < data) break;
    if (is_address && data == size) {
      struct address address = {size, {0}};
      __builtin_memcpy(address.bytes, message + at, size);
      add_address(found, address);
    }
    at += data;
  }
  // One address is enough, so nothing is asked again over TCP.
  return is_truncated && found->count == before ? DNS_FAILED : DNS_FOUND;
}
