/*
 * slicewire-drained: `slicewire drained` as a program that needs 0.1 MB in the place of Node.js' 35, for the preStop hooks of Pods
 * (docs/fleet.md). Flags, answers, texts and exit statuses are those of src/fleet/drained/ and src/cli/drained.ts, and the same tests run both.
 */
#include <asm/errno.h>

#include "answer.h"
#include "http.h"
#include "lookup.h"
#include "question.h"
#include "system.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"
#define DEFAULT_TIMEOUT "30s"
#define DEFAULT_FLEET "http://slicewire-fleet.kube-system:10262"

static const char HELP[] =
    "Usage: slicewire-drained [options]\n"
    "\n"
    "wait until no node sends new connections to a Pod that ends: its preStop hook\n"
    "\n"
    "Question:\n"
    "  -o, --output <form>   text or json (default: text)\n"
    "  --pod <name>          the Pod: NAMESPACE/NAME, or NAME in the namespace of\n"
    "                        this Pod (default: $POD_NAME)\n"
    "  --address <address>   an address of an endpoint, instead of a Pod\n"
    "  --timeout <duration>  how long to wait, at most 10m (default: " DEFAULT_TIMEOUT ")\n"
    "  --fleet <url>         where the fleet answers (default:\n"
    "                        " DEFAULT_FLEET ")\n"
    "  --token-file <file>   token to show to the fleet (default: that of this Pod's\n"
    "                        ServiceAccount)\n"
    "\n"
    "Help:\n"
    "  -h, --help            show this help\n"
    "\n"
    "A fleet that is away, or ends, is asked again until the time is over.\n"
    "docs/fleet.md has the hook as YAML, and what it guarantees.\n"
    "Exit status: 0 drained, 1 not within the time, 2 the question is wrong.\n";

enum { STATUS_DRAINED = 0, STATUS_NOT = 1, STATUS_WRONG = 2 };
enum { MOST_TOKEN = 16 << 10, MOST_PATH = 2048, MOST_FAILURE = 4096 };

/* Time that an answer may take beyond its wait: it ends a question to a replica that accepts it and never answers. */
#define GRACE (2 * SECOND)
/* Between questions that had no answer: the first pause, and the longest. */
#define FIRST_PAUSE (100 * MILLISECOND)
#define LONGEST_PAUSE (1000 * MILLISECOND)
/* For one of several addresses, as Node.js has it (net.setDefaultAutoSelectFamilyAttemptTimeout). */
#define ATTEMPT (250 * MILLISECOND)

/* The flags as they were given; NULL for a missing one. */
static struct {
  const char *output;
  const char *pod;
  const char *address;
  const char *timeout;
  const char *fleet;
  const char *token_file;
} flags;

static const struct {
  const char *name;
  const char *usage;
  const char **value;
} FLAGS[] = {
    {"output", "-o, --output <form>", &flags.output},
    {"pod", "--pod <name>", &flags.pod},
    {"address", "--address <address>", &flags.address},
    {"timeout", "--timeout <duration>", &flags.timeout},
    {"fleet", "--fleet <url>", &flags.fleet},
    {"token-file", "--token-file <file>", &flags.token_file},
};

static struct {
  /* Of the request, up to the number of the timeout. */
  struct slice path;
  char path_bytes[MOST_PATH];
  /* Nanoseconds. */
  int64_t timeout;
  struct fleet fleet;
  /* NULL where no token is sent. */
  const char *token_file;
} question;

/* Answers as they came: one that is kept, and one that arrives. */
static char bodies[2][MOST_BODY];
static struct response response;
static char token_bytes[MOST_TOKEN];

/* Ends with a sentence on standard error, made of texts up to NULL. */
static _Noreturn void end_with(int status, const char *const texts[]) {
  struct output errors = output_to(2);
  put(&errors.sink, "slicewire: ");
  for (size_t at = 0; texts[at] != NULL; at++) put(&errors.sink, texts[at]);
  end_output(&errors);
  end_process(status);
}
#define END_WITH(status, ...) end_with((status), (const char *const[]){__VA_ARGS__, NULL})

#define EXAMPLE "\n(for example: slicewire-drained --pod shop/web-1 --timeout 30s; slicewire-drained --help has the rest)"

static _Noreturn void print_help(void) {
  struct output output = output_to(1);
  put(&output.sink, HELP);
  end_output(&output);
  end_process(0);
}

/* The value of a flag: the rest of its word, or the next word, whatever that begins with. */
static int take_value(size_t flag, const char *rest, char **arguments, int at, int count) {
  if (rest == NULL && at + 1 == count) END_WITH(STATUS_NOT, "option '", FLAGS[flag].usage, "' argument missing" EXAMPLE);
  *FLAGS[flag].value = rest == NULL ? arguments[at + 1] : rest;
  return rest == NULL ? at + 2 : at + 1;
}

/* `--name`, `--name=value`, `-o` and `-ovalue`. The index after what was taken. */
static int take_flag(char **arguments, int at, int count) {
  struct slice word = slice_of(arguments[at]);
  if (is_same(word, "-h") || is_same(word, "--help")) print_help();
  if (starts_with(word, "-o")) return take_value(0, word.length > 2 ? word.at + 2 : NULL, arguments, at, count);
  size_t end = 0;
  while (end < word.length && word.at[end] != '=') end++;
  for (size_t flag = 0; flag < sizeof FLAGS / sizeof *FLAGS; flag++)
    if (starts_with(word, "--") && is_same((struct slice){word.at + 2, end - 2}, FLAGS[flag].name))
      return take_value(flag, end < word.length ? word.at + end + 1 : NULL, arguments, at, count);
  END_WITH(STATUS_NOT, "unknown option '", arguments[at], "'" EXAMPLE);
}

static void read_flags(int count, char **arguments) {
  int at = 1;
  while (at < count && arguments[at][0] == '-' && arguments[at][1] != 0 && !is_same(slice_of(arguments[at]), "--"))
    at = take_flag(arguments, at, count);
  if (at < count && is_same(slice_of(arguments[at]), "--")) at++;
  if (at < count) END_WITH(STATUS_NOT, "too many arguments. Expected 0 arguments but got 1: ", arguments[at], "." EXAMPLE);
  if (flags.output != NULL && !is_same(slice_of(flags.output), "text") && !is_same(slice_of(flags.output), "json"))
    END_WITH(STATUS_NOT, "option '-o, --output <form>' argument '", flags.output, "' is invalid. Allowed choices are text, json." EXAMPLE);
}

/* NULL: it is not set, or is empty. */
static const char *variable(char **environment, const char *name) {
  size_t length = slice_of(name).length;
  for (; *environment != NULL; environment++) {
    struct slice entry = slice_of(*environment);
    if (starts_with(entry, name) && entry.length > length + 1 && entry.at[length] == '=') return entry.at + length + 1;
  }
  return NULL;
}

/* Of a Pod that is named without its namespace: that of this Pod. */
static void put_namespace(struct sink *sink, const char *flag, const char *name, char **environment) {
  const char *given = variable(environment, "POD_NAMESPACE");
  if (given != NULL) return put(sink, given);
  // More is no name.
  char bytes[MOST_NAME + 3];
  long length = read_file(ACCOUNT "/namespace", bytes, sizeof bytes);
  if (length < 0)
    END_WITH(STATUS_WRONG, flag, " ", name, ": has no namespace, and " ACCOUNT "/namespace is not there: write NAMESPACE/NAME");
  put_slice(sink, trimmed((struct slice){bytes, (size_t)length}));
}

static void read_pod(struct sink *path, char **environment) {
  const char *given = flags.pod == NULL ? variable(environment, "POD_NAME") : flags.pod;
  const char *flag = flags.pod == NULL ? "POD_NAME" : "--pod";
  if (given == NULL || *given == 0)
    END_WITH(STATUS_WRONG, "--pod: name the Pod that ends, or its --address; where neither is given, the environment variable POD_NAME counts");
  char bytes[2 * MOST_NAME + 2];
  struct text pod = TEXT_IN(bytes);
  if (!has_byte(slice_of(given), '/')) {
    put_namespace(&pod.sink, flag, given, environment);
    put(&pod.sink, "/");
  }
  put(&pod.sink, given);
  if (pod.is_cut || !is_pod(kept(&pod))) END_WITH(STATUS_WRONG, flag, " ", given, ": must be NAME or NAMESPACE/NAME of a Pod");
  put(path, "pod=");
  put_encoded(path, kept(&pod));
}

static void read_asked(struct sink *path, char **environment) {
  struct address address;
  if (flags.address == NULL) return read_pod(path, environment);
  if (flags.pod != NULL)
    END_WITH(STATUS_WRONG, "--address ", flags.address, ": cannot be combined with --pod: both name what ends; give one");
  if (!read_address(slice_of(flags.address), true, &address))
    END_WITH(STATUS_WRONG, "--address ", flags.address, ": must be an IP address, such as 10.244.1.13");
  put(path, "address=");
  put_encoded(path, slice_of(flags.address));
}

static void read_question(char **environment) {
  struct text path = TEXT_IN(question.path_bytes);
  put(&path.sink, "/drained?");
  read_asked(&path.sink, environment);
  put(&path.sink, "&timeout=");
  question.path = kept(&path);
  const char *timeout = flags.timeout == NULL ? DEFAULT_TIMEOUT : flags.timeout;
  question.timeout = read_timeout(slice_of(timeout));
  if (question.timeout < 0)
    END_WITH(STATUS_WRONG, "--timeout ", timeout, ": must be a duration of more than 0 and at most 10m, such as 30s");
  const char *fleet = flags.fleet == NULL ? DEFAULT_FLEET : flags.fleet;
  if (!read_fleet(slice_of(fleet), &question.fleet))
    END_WITH(STATUS_WRONG, "--fleet ", fleet, ": must be http://HOST:PORT of the fleet, such as " DEFAULT_FLEET);
  question.token_file = flags.token_file == NULL ? ACCOUNT "/token" : flags.token_file;
  if (read_file(question.token_file, token_bytes, sizeof token_bytes) >= 0) return;
  if (flags.token_file != NULL) END_WITH(STATUS_WRONG, "--token-file ", flags.token_file, ": cannot be read");
  question.token_file = NULL;
}

enum said {
  SAID_ANSWER,
  /* The question is wrong: asking again does not help. */
  SAID_WRONG,
  /* There is no answer now. */
  SAID_NOTHING,
};

/* One question. */
struct asking {
  int64_t deadline;
  /* Nanoseconds until the fleet says that it is not drained. */
  int64_t wait;
  /* The answer, or the problem. */
  struct json said;
  /* Why there is none. */
  struct text failure;
};

static enum said nothing(struct asking *asking, const char *why) {
  put(&asking->failure.sink, why);
  return SAID_NOTHING;
}

/* no answer within 32 s */
static enum said nothing_in_time(struct asking *asking) {
  uint64_t milliseconds = (uint64_t)((asking->wait + GRACE + MILLISECOND / 2) / MILLISECOND);
  struct sink *failure = &asking->failure.sink;
  put(failure, "no answer within ");
  put_number(failure, milliseconds / 1000);
  milliseconds %= 1000;
  if (milliseconds > 0) put(failure, ".");
  for (uint64_t place = 100; milliseconds > 0; place /= 10) {
    put_number(failure, milliseconds / place);
    milliseconds %= place;
  }
  put(failure, " s");
  return SAID_NOTHING;
}

/* connect ECONNREFUSED, read ECONNRESET */
static enum said nothing_after(struct asking *asking, const char *call, long error) {
  if (error == -ETIMEDOUT && monotonic_now() >= asking->deadline) return nothing_in_time(asking);
  put(&asking->failure.sink, call);
  put(&asking->failure.sink, " ");
  put_error_name(&asking->failure.sink, error);
  return SAID_NOTHING;
}

/* Read anew each time: the kubelet writes another token before this one expires. */
static bool read_token(struct asking *asking, struct slice *token) {
  struct sink *failure = &asking->failure.sink;
  *token = (struct slice){token_bytes, 0};
  if (question.token_file == NULL) return true;
  long length = read_file(question.token_file, token_bytes, sizeof token_bytes);
  if (length < 0) {
    put_error_name(failure, length);
    put(failure, ": ");
    put_error_text(failure, length);
    put(failure, ", open '");
    put(failure, question.token_file);
    put(failure, "'");
    return false;
  }
  if (length == MOST_TOKEN) {
    put(failure, question.token_file);
    put(failure, " is larger than any token");
    return false;
  }
  *token = trimmed((struct slice){token_bytes, (size_t)length});
  for (size_t at = 0; at < token->length; at++) {
    uint8_t byte = (uint8_t)token->at[at];
    if ((byte >= 0x20 && byte != 0x7f) || byte == '\t') continue;
    // Another header could begin there.
    put(failure, "Invalid character in header content [\"authorization\"]");
    return false;
  }
  return true;
}

/* A socket; -1: `failure` says why there is none. */
static int connect_to_fleet(struct asking *asking) {
  const struct fleet *fleet = &question.fleet;
  struct sink *failure = &asking->failure.sink;
  struct addresses found = {.count = 1, .list = {fleet->address}};
  enum lookup result = fleet->is_address ? LOOKUP_FOUND : look_up(fleet->host, asking->deadline, &found);
  if (result != LOOKUP_FOUND) {
    if (monotonic_now() >= asking->deadline) {
      nothing_in_time(asking);
      return -1;
    }
    put(failure, result == LOOKUP_NO_NAME ? "getaddrinfo ENOTFOUND " : "getaddrinfo EAI_AGAIN ");
    put_slice(failure, fleet->host);
    return -1;
  }
  for (size_t at = 0;; at++) {
    bool is_last = at + 1 == found.count;
    int64_t attempt = monotonic_now() + ATTEMPT;
    int64_t deadline = is_last || attempt > asking->deadline ? asking->deadline : attempt;
    int socket = open_socket(found.list[at], fleet->port, SOCK_STREAM);
    int error = socket < 0 ? socket : finish_connecting(socket, deadline);
    if (error >= 0) return socket;
    if (socket >= 0) close_descriptor(socket);
    if (!is_last) continue;
    nothing_after(asking, "connect", error);
    if (error == -ETIMEDOUT && monotonic_now() >= asking->deadline) return -1;
    put(failure, " ");
    put_address(failure, found.list[at]);
    put(failure, ":");
    put_number(failure, fleet->port);
    return -1;
  }
}

static long send_text(int socket, struct slice text, int64_t deadline) {
  while (text.length > 0) {
    long sent = send_some(socket, text.at, text.length, deadline);
    if (sent < 0) return sent;
    text.at += sent;
    text.length -= (size_t)sent;
  }
  return 0;
}

static char request_bytes[MOST_PATH + MOST_TOKEN + 1024];

static struct slice request_with(const struct asking *asking, struct slice token) {
  struct text request = TEXT_IN(request_bytes);
  struct sink *sink = &request.sink;
  put(sink, "GET ");
  put_slice(sink, question.path);
  put_number(sink, (uint64_t)((asking->wait + MILLISECOND - 1) / MILLISECOND));
  put(sink, "ms HTTP/1.1\r\nHost: ");
  put_slice(sink, question.fleet.shown);
  put(sink, "\r\nConnection: close\r\n");
  if (question.token_file != NULL) {
    put(sink, "Authorization: Bearer ");
    put_slice(sink, token);
    put(sink, "\r\n");
  }
  put(sink, "\r\n");
  return kept(&request);
}

/* The meaning of a status and a body. */
static enum said meaning_of(struct asking *asking) {
  int status = response.status;
  struct json json = json_read((struct slice){response.body, response.body_length});
  if (status == 200 || status == 504) {
    asking->said = json;
    // A proxy in between has a status 504 of its own.
    if (answer_has_form(json) && answer_is_drained(json) == (status == 200)) return SAID_ANSWER;
    put(&asking->failure.sink, "the answer cannot be read (HTTP status ");
    put_number(&asking->failure.sink, (uint64_t)status);
    return nothing(asking, "): it is another program, or version");
  }
  struct json message = problem_message(json);
  if (message.kind == JSON_STRING) put_string(&asking->failure.sink, message, false);
  else {
    put(&asking->failure.sink, "HTTP status ");
    put_number(&asking->failure.sink, (uint64_t)status);
  }
  return status == 400 ? SAID_WRONG : SAID_NOTHING;
}

/* On a connection of its own. */
static enum said ask_once(struct asking *asking, char *body) {
  struct slice token;
  if (!read_token(asking, &token)) return SAID_NOTHING;
  int socket = connect_to_fleet(asking);
  if (socket < 0) return SAID_NOTHING;
  keep_alive(socket);
  response_begin(&response, body);
  long moved = send_text(socket, request_with(asking, token), asking->deadline);
  const char *call = "write";
  while (moved >= 0 && response.state != AT_DONE && response.state != AT_FAULT) {
    char bytes[4096];
    call = "read";
    moved = receive_some(socket, bytes, sizeof bytes, asking->deadline);
    if (moved > 0) response_take(&response, bytes, (size_t)moved);
    // An end by force is an end, too.
    if (moved == 0 || (moved == -ECONNRESET && response_has_begun(&response))) {
      response_end(&response);
      moved = 0;
    }
  }
  close_descriptor(socket);
  if (moved < 0) return nothing_after(asking, call, moved);
  return response.state == AT_FAULT ? nothing(asking, response.fault) : meaning_of(asking);
}

static void show(struct json answer, int64_t waited) {
  struct output output = output_to(1);
  uint64_t milliseconds = (uint64_t)((waited + MILLISECOND / 2) / MILLISECOND);
  bool is_json = flags.output != NULL && is_same(slice_of(flags.output), "json");
  if (is_json) put_answer_json(&output.sink, answer, milliseconds);
  else put_answer_text(&output.sink, answer, milliseconds);
  end_output(&output);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/*
 * Each question has all of the time that is left: a new one takes the newest versions of its own moment, so that Nodes which are slow, but
 * not that slow, would never be seen as done.
 */
static int ask_until_drained(void) {
  int64_t start = monotonic_now();
  int64_t pause = FIRST_PAUSE;
  static char failure_bytes[MOST_FAILURE];
  struct text failure = TEXT_IN(failure_bytes);
  put(&failure.sink, "it was not asked");
  struct json last = {JSON_NONE, NULL, NULL};
  int64_t last_waited = 0;
  int arriving = 0;
  for (int64_t left = question.timeout; left > 0; left = start + question.timeout - monotonic_now()) {
    struct asking asking = {.deadline = monotonic_now() + left + GRACE, .wait = left, .failure = TEXT_IN(failure_bytes)};
    enum said said = ask_once(&asking, bodies[arriving]);
    failure = asking.failure;
    if (said == SAID_WRONG) {
      struct output errors = output_to(2);
      put(&errors.sink, "slicewire: the fleet says: ");
      put_slice(&errors.sink, kept(&failure));
      end_output(&errors);
      return STATUS_WRONG;
    }
    if (said == SAID_ANSWER) {
      last = asking.said;
      last_waited = monotonic_now() - start;
      if (answer_is_drained(last)) {
        show(last, last_waited);
        return STATUS_DRAINED;
      }
      arriving = 1 - arriving;
      pause = FIRST_PAUSE;
    }
    int64_t now = monotonic_now();
    int64_t jitter = random_below((uint32_t)(pause / MILLISECOND)) * MILLISECOND;
    wait_until(least(now + pause + jitter, start + question.timeout));
    if (said == SAID_NOTHING) pause = least(pause * 2, LONGEST_PAUSE);
  }
  if (last.kind != JSON_NONE) show(last, last_waited);
  if (failure.length > 0) {
    struct output errors = output_to(2);
    put(&errors.sink, "slicewire: the fleet at ");
    put_slice(&errors.sink, question.fleet.shown);
    put(&errors.sink, " does not answer: ");
    put_slice(&errors.sink, kept(&failure));
    end_output(&errors);
  }
  return STATUS_NOT;
}

int run(int count, char **arguments, char **environment) {
  read_flags(count, arguments);
  catch_signals();
  read_question(environment);
  return ask_until_drained();
}
