#include "kernel.h"

#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/elf.h>
#include <linux/time.h>
#include <linux/time_types.h>

#if defined __x86_64__

__asm__(".text\n"
        ".global _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "  xor %ebp, %ebp\n"
        "  mov %rsp, %rdi\n"
        "  and $-16, %rsp\n"
        "  call start\n"
        "  hlt\n");

long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

/* R_X86_64_RELATIVE of the processor's ABI. */
enum { RELATIVE = 8 };

#elif defined __aarch64__

__asm__(".text\n"
        ".global _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "  mov x29, #0\n"
        "  mov x30, #0\n"
        "  mov x0, sp\n"
        "  and sp, x0, #-16\n"
        "  bl start\n"
        "  brk #1\n");

long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}

/* R_AARCH64_RELATIVE of the processor's ABI. */
enum { RELATIVE = 1027 };

#else
#error "slicewire-drained is built for amd64 and arm64"
#endif

/* Where the program begins in memory, and its table of what a loader does. The linker makes both. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

/* By these names the compiler's check of the stack finds its value and its end. */
uintptr_t __stack_chk_guard;
_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void) {
  __builtin_trap();
}

/* The program is at an address by chance (ASLR): pointers in its data get it added here, because there is no loader. */
static inline __attribute__((always_inline)) void relocate(void) {
  uintptr_t base = (uintptr_t)__ehdr_start;
  const Elf64_Rela *table = NULL;
  size_t size = 0;
  for (const Elf64_Dyn *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_RELA) table = (const Elf64_Rela *)(base + entry->d_un.d_ptr);
    if (entry->d_tag == DT_RELASZ) size = entry->d_un.d_val;
  }
  for (size_t at = 0; at < size / sizeof *table; at++) {
    if (ELF64_R_TYPE(table[at].r_info) != RELATIVE) __builtin_trap();
    *(uintptr_t *)(base + table[at].r_offset) = base + (uintptr_t)table[at].r_addend;
  }
}

_Noreturn void start(long *stack);

/* `stack` as the kernel leaves it: the number of arguments, the arguments, the environment, the auxiliary vector. */
__attribute__((no_stack_protector, used)) _Noreturn void start(long *stack) {
  relocate();
  long count = stack[0];
  char **arguments = (char **)(stack + 1);
  char **environment = arguments + count + 1;
  char **end = environment;
  while (*end != NULL) end++;
  // Pairs of a type and a value.
  for (const long *entry = (const long *)(end + 1); entry[0] != AT_NULL; entry += 2)
    if (entry[0] == AT_RANDOM) memcpy(&__stack_chk_guard, (const void *)entry[1], sizeof __stack_chk_guard);
  end_process(run((int)count, arguments, environment));
}

_Noreturn void end_process(int status) {
  for (;;) system_call(__NR_exit_group, status, 0, 0, 0, 0, 0);
}

int64_t monotonic_now(void) {
  struct __kernel_timespec now = {0};
  system_call(__NR_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

uint32_t random_below(uint32_t bound) {
  uint32_t number;
  if (system_call(__NR_getrandom, (long)&number, sizeof number, 0, 0, 0, 0) != sizeof number) __builtin_trap();
  return (uint32_t)(((uint64_t)number * bound) >> 32);
}

void *memcpy(void *restrict to, const void *restrict from, size_t length) {
  for (size_t at = 0; at < length; at++) ((char *)to)[at] = ((const char *)from)[at];
  return to;
}

void *memmove(void *to, const void *from, size_t length) {
  if ((uintptr_t)to <= (uintptr_t)from) {
    for (size_t at = 0; at < length; at++) ((char *)to)[at] = ((const char *)from)[at];
  } else {
    for (size_t at = length; at > 0; at--) ((char *)to)[at - 1] = ((const char *)from)[at - 1];
  }
  return to;
}

void *memset(void *to, int byte, size_t length) {
  for (size_t at = 0; at < length; at++) ((char *)to)[at] = (char)byte;
  return to;
}

int memcmp(const void *a, const void *b, size_t length) {
  for (size_t at = 0; at < length; at++) {
    int difference = ((const unsigned char *)a)[at] - ((const unsigned char *)b)[at];
    if (difference != 0) return difference;
  }
  return 0;
}
