/* SPDX-License-Identifier: Apache-2.0 */
/* sa_reserved.c: names that a C file must not give to what a user named: they are words of C or C++, or belong to the C
   library, whose headers may be included before the file's own. tests/standalone/standalone_names.c holds the lists to
   the macros that the compilers know. */
#include "standalone/standalone.h"

#include <string.h>

/* Each word is followed by a space. */
static const char words[] =
    /* words of C, with those that some compilers add */
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile "
    "while alignas alignof bool constexpr false nullptr static_assert thread_local true typeof typeof_unqual "
    "asm noreturn linux unix i386 "
    /* words of C++, with those of <iso646.h> */
    "and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield compl concept "
    "const_cast consteval constinit decltype delete dynamic_cast explicit export final friend import mutable "
    "namespace new noexcept not not_eq operator or or_eq override private protected public reinterpret_cast "
    "requires static_cast template this throw try typeid typename using virtual wchar_t xor xor_eq "
    /* <math.h> */
    "DOMAIN INFINITY NAN OVERFLOW PLOSS SING TLOSS UNDERFLOW acos acosh asin asinh atan atan2 atanh cbrt ceil "
    "copysign cos cosh double_t drem erf erfc exp exp10 exp2 expm1 fabs fdim finite float_t floor fma fmax "
    "fmin fmod fpclassify frexp gamma gammaf hypot ilogb isfinite isgreater isgreaterequal isinf isless "
    "islessequal islessgreater isnan isnormal isunordered j0 j1 jn ldexp lgamma llrint llround log log10 "
    "log1p log2 logb lrint lround math_errhandling modf nan nearbyint nextafter nexttoward pow pow10 "
    "remainder remquo rint round roundeven scalb scalbln scalbn signbit signgam significand sin sincos sinh "
    "sqrt tan tanh tgamma trunc y0 y1 yn "
    /* <complex.h> */
    "I cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog complex conj cpow cproj "
    "creal csin csinh csqrt ctan ctanh imaginary "
    /* <string.h>, <strings.h> */
    "basename bcmp bcopy bzero ffs index memchr memcmp memcpy memmove memset rindex stpcpy strcat strchr "
    "strcmp strcoll strcpy strcspn strdup strerror strlen strncat strncmp strncpy strndup strpbrk strrchr "
    "strsep strspn strstr strtok strxfrm "
    /* <stdio.h> */
    "BUFSIZ EOF FILE FILENAME_MAX FOPEN_MAX clearerr dprintf fclose feof ferror fflush fgetc fgetpos fgets "
    "fopen fpos_t fprintf fputc fputs fread freopen fscanf fseek fsetpos ftell fwrite getc getchar gets "
    "getline pclose perror popen printf putc putchar puts remove rename rewind scanf setbuf setvbuf snprintf "
    "sprintf sscanf stderr stdin stdout tmpfile tmpnam ungetc vfprintf vprintf vsnprintf vsprintf "
    /* <stdlib.h> */
    "NULL abort abs aligned_alloc atexit atof atoi atol atoll bsearch calloc div div_t exit free getenv labs "
    "ldiv ldiv_t llabs lldiv lldiv_t malloc mblen mbstowcs mbtowc qsort quick_exit rand random realloc setenv "
    "srand strtod strtof strtol strtold strtoll strtoul strtoull system wcstombs wctomb "
    /* <signal.h> */
    "SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGPIPE "
    "SIGPOLL SIGPROF SIGPWR SIGQUIT SIGRTMAX SIGRTMIN SIGSEGV SIGSTKFLT SIGSTOP SIGSYS SIGTERM SIGTRAP "
    "SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ raise sig_atomic_t "
    "signal "
    /* other headers */
    "ONCE_FLAG_INIT WEOF asctime assert btowc clock clock_t ctime difftime errno fenv_t fexcept_t gmtime "
    "int16_t int32_t int64_t int8_t intmax_t intptr_t isalnum isalpha isblank iscntrl isdigit isgraph islower "
    "isprint ispunct isspace isupper isxdigit jmp_buf kill_dependency lconv localeconv localtime longjmp main "
    "max_align_t mbstate_t mktime offsetof ptrdiff_t setjmp setlocale size_t ssize_t strftime time time_t "
    "timespec tm tolower toupper uint16_t uint32_t uint64_t uint8_t uintmax_t uintptr_t va_arg va_copy va_end "
    "va_list va_start wctrans_t wctype_t wint_t "
    /* what the functions of a file use themselves */
    "arena at bytes code file in index m memory module out scratch step ";

/* The beginnings of macros in capitals that the headers define many of. */
static const char beginnings[] =
    "ATOMIC_ CHAR_ CLOCK CMPLX DBL_ DEC32_ DEC64_ DEC128_ DECIMAL_ EXIT_ FE_ FLT_ FP_ HUGE_VAL INT16_ INT32_ "
    "INT64_ INT8_ INTMAX_ INTPTR_ INT_ LC_ LDBL_ LLONG_ LONG_ L_ MATH_ MB_ M_ PRIX PRId PRIi PRIo PRIu PRIx "
    "PTRDIFF_ RAND_ SCHAR_ SCNX SCNd SCNi SCNo SCNu SCNx SEEK_ SHRT_ SIG_ SIZE_ SSIZE_ TIME_ TMP_ TSS_ UCHAR_ "
    "UINT16_ UINT32_ UINT64_ UINT8_ UINTMAX_ UINTPTR_ UINT_ ULLONG_ ULONG_ USHRT_ WCHAR_ WINT_ atomic_ ";

/* Whether one of the words is `name`, or with `is_beginning` the beginning of it. */
static bool has_word(const char *list, const char *name, bool is_beginning)
{
    size_t size = strlen(name);
    for (const char *end; *list; list = end + 1) {
        end = strchr(list, ' ');
        size_t n = (size_t)(end - list);
        if ((is_beginning ? n <= size : n == size) && memcmp(list, name, n) == 0)
            return true;
    }
    return false;
}

/* <errno.h> may define any E and more capitals or digits. */
static bool is_like_an_error(const char *name)
{
    return name[0] == 'E' && strlen(name) > 2 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == strlen(name);
}

bool flxi_sa_is_reserved(const char *name)
{
    return has_word(words, name, false) || has_word(beginnings, name, true) || is_like_an_error(name);
}
