package calm

/*
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static const unsigned long calm = 5000000, usual = 50000; // nanoseconds

// A variable that is still there from a trial must not make an agent's timers
// late: with arguments, the request is not what is answered. An attendant stays as
// long as kubectl. Only glibc tells a constructor the arguments.
#ifdef __GLIBC__
static int kubehsm_answers(int argc, char **argv, int request) {
	if (argc < 2)
		return request;
	return strcmp(argv[1], "credential") == 0 && (argc < 3 || strcmp(argv[2], "--attend") != 0);
}
#else
#define kubehsm_answers(argc, argv, request) (request)
#endif

__attribute__((constructor)) static void kubehsm_calm(int argc, char **argv) {
	int request = getenv("EXTERNAL_SIGNER_PLUGIN_CONFIG") || getenv("EXTERNAL_SIGNER_PKCS11_PLUGIN_CONFIG");
	if (kubehsm_answers(argc, argv, request))
		prctl(PR_SET_TIMERSLACK, calm, 0UL, 0UL, 0UL);
	else if (prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL) == (int)calm) // inherited from a calm parent
		prctl(PR_SET_TIMERSLACK, usual, 0UL, 0UL, 0UL);
}
*/
import "C"
