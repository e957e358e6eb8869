/*
 * Threads write into memory while it is registered and given up again: no write is lost.
 * Arguments: rounds, and bytes of the memory.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS 2

#define CHECK(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			exit(1); \
		} \
	} while (0)

static uint64_t *word;
static size_t words;
static int stop;
static uint64_t written[THREADS];

static void *write_words(void *which)
{
	size_t t = (size_t)which;
	uint64_t n = 0;

	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++)
		__atomic_fetch_add(&word[(n * 67 + t) % words], 1, __ATOMIC_RELAXED);
	written[t] = n;
	return NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100;
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 65536;
	struct ibv_device **list = ibv_get_device_list(NULL);
	uint64_t sum = 0, wrote = 0;
	struct ibv_context *c;
	pthread_t t[THREADS];
	struct ibv_pd *pd;

	CHECK(list && list[0] && (c = ibv_open_device(list[0])) && (pd = ibv_alloc_pd(c)));
	word = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	words = bytes / sizeof *word;
	memset(word, 0, bytes);
	for (size_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, write_words, (void *)i) == 0);
	for (int i = 0; i < rounds; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, word, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

		CHECK(mr && ibv_dereg_mr(mr) == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		wrote += written[i];
	}
	for (size_t i = 0; i < words; i++)
		sum += word[i];
	printf("%lu writes, %lu lost\n", wrote, wrote - sum);
	return sum != wrote;
}
