/* A wall clock that can be set for some processes: loaded before libc, it adds the seconds that the
 * file CAMPAIGN_CLOCK holds as a double. Other clocks are as they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *offset_s;

__attribute__((constructor)) static void open_clock(void)
{
	const char *path = getenv("CAMPAIGN_CLOCK");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0)
		return;
	void *page = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
	if (page != MAP_FAILED)
		offset_s = page;
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int status = (int)syscall(SYS_clock_gettime, clock, now);
	if (status == 0 && clock == CLOCK_REALTIME && offset_s)
		now->tv_sec += (time_t)*offset_s;
	return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *result)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (result)
		*result = now.tv_sec;
	return now.tv_sec;
}
