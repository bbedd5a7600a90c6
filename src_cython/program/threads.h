/* The one place with threads: a pool that the whole process shares.
 *
 * pop_parallel(n, body, context) runs body(context, 0 .. n-1), the caller taking a share, and returns when all have
 * ended. One caller owns the pool at a time; whoever finds it busy runs its own parts one after another, so results never
 * depend on who got the pool. Workers spin for a moment and then sleep. A forked child starts with an empty pool. */
#ifndef POP_THREADS_H
#define POP_THREADS_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define POP_MAX_THREADS 256
#define POP_SPINS 4000

typedef void (*pop_body)(void *context, int part);

static struct {
    pthread_mutex_t owner, sleep;
    pthread_cond_t wake, done;
    pop_body body;
    void *context;
    int parts;
    int workers;               /* started in this process */
    atomic_uint generation;    /* one more for each job */
    atomic_int next, pending;  /* next part to take; parts not yet ended */
    atomic_int active;         /* workers inside the current job */
} pop_pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};

static inline void pop_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void pop_take_parts(void)
{
    int part;
    while ((part = atomic_fetch_add(&pop_pool.next, 1)) < pop_pool.parts) {
        pop_pool.body(pop_pool.context, part);
        if (atomic_fetch_sub(&pop_pool.pending, 1) == 1) {
            pthread_mutex_lock(&pop_pool.sleep);
            pthread_cond_signal(&pop_pool.done);
            pthread_mutex_unlock(&pop_pool.sleep);
        }
    }
}

static void *pop_worker(void *start)
{
    unsigned seen = (unsigned)(uintptr_t)start;
    for (;;) {
        for (int i = 0; i < POP_SPINS && atomic_load(&pop_pool.generation) == seen; i++) pop_pause();
        pthread_mutex_lock(&pop_pool.sleep);
        while (atomic_load(&pop_pool.generation) == seen) pthread_cond_wait(&pop_pool.wake, &pop_pool.sleep);
        seen = atomic_load(&pop_pool.generation);
        atomic_fetch_add(&pop_pool.active, 1);
        pthread_mutex_unlock(&pop_pool.sleep);
        pop_take_parts();
        atomic_fetch_sub(&pop_pool.active, 1);
    }
    return NULL;
}

static void pop_pool_after_fork(void)
{
    pthread_mutex_init(&pop_pool.owner, NULL);
    pthread_mutex_init(&pop_pool.sleep, NULL);
    pthread_cond_init(&pop_pool.wake, NULL);
    pthread_cond_init(&pop_pool.done, NULL);
    pop_pool.workers = 0;
    atomic_store(&pop_pool.active, 0);
}

static void pop_pool_start(int workers)
{
    static int registered;
    if (!registered) {
        pthread_atfork(NULL, NULL, pop_pool_after_fork);
        registered = 1;
    }
    while (pop_pool.workers < workers) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        void *seen = (void *)(uintptr_t)atomic_load(&pop_pool.generation);
        int failed = pthread_create(&thread, &attributes, pop_worker, seen);
        pthread_attr_destroy(&attributes);
        if (failed) break; /* fewer workers: the parts still all run */
        pop_pool.workers++;
    }
}

static void pop_parallel(int parts, pop_body body, void *context)
{
    if (parts <= 1 || pthread_mutex_trylock(&pop_pool.owner) != 0) {
        for (int part = 0; part < parts; part++) body(context, part);
        return;
    }
    pop_pool_start(parts - 1 < POP_MAX_THREADS ? parts - 1 : POP_MAX_THREADS);
    pthread_mutex_lock(&pop_pool.sleep);
    while (atomic_load(&pop_pool.active)) pop_pause(); /* a worker that woke after the last job had ended */
    pop_pool.body = body;
    pop_pool.context = context;
    pop_pool.parts = parts;
    atomic_store(&pop_pool.pending, parts);
    atomic_store(&pop_pool.next, 0);
    atomic_fetch_add(&pop_pool.generation, 1);
    pthread_cond_broadcast(&pop_pool.wake);
    pthread_mutex_unlock(&pop_pool.sleep);
    pop_take_parts();
    for (int i = 0; i < POP_SPINS && atomic_load(&pop_pool.pending); i++) pop_pause();
    pthread_mutex_lock(&pop_pool.sleep);
    while (atomic_load(&pop_pool.pending)) pthread_cond_wait(&pop_pool.done, &pop_pool.sleep);
    pthread_mutex_unlock(&pop_pool.sleep);
    /* Whoever ended the last part may still be about to signal: the pool is free when it has left. */
    while (atomic_load(&pop_pool.active)) pop_pause();
    pthread_mutex_unlock(&pop_pool.owner);
}
#endif
