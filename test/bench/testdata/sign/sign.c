/* sign makes one ECDSA signature with a PKCS#11 module and nothing else: what
 * a signer of ours is compared with. It is compiled when the benchmark runs.
 *
 *     sign MODULE TOKEN ID PIN
 *
 * TOKEN is a label, ID the key's CKA_ID in hex. The PIN is that of a scratch
 * token. The signature goes to standard output in hex.
 */
#define CK_PTR *
#define CK_DEFINE_FUNCTION(type, name) type name
#define CK_DECLARE_FUNCTION(type, name) type name
#define CK_DECLARE_FUNCTION_POINTER(type, name) type(*name)
#define CK_CALLBACK_FUNCTION(type, name) type(*name)
#define NULL_PTR 0

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pkcs11.h"

static void must(const char *what, CK_RV rv) {
	if (rv != CKR_OK) {
		fprintf(stderr, "%s: 0x%lx\n", what, (unsigned long)rv);
		exit(1);
	}
}

static CK_SLOT_ID find_slot(CK_FUNCTION_LIST_PTR p11, const char *label) {
	CK_SLOT_ID slots[64];
	CK_ULONG count = 64;
	must("C_GetSlotList", p11->C_GetSlotList(CK_TRUE, slots, &count));
	for (CK_ULONG i = 0; i < count; i++) {
		CK_TOKEN_INFO info;
		must("C_GetTokenInfo", p11->C_GetTokenInfo(slots[i], &info));
		size_t n = sizeof info.label;
		while (n > 0 && info.label[n - 1] == ' ')
			n--;
		if (n == strlen(label) && memcmp(info.label, label, n) == 0)
			return slots[i];
	}
	fprintf(stderr, "no token %s\n", label);
	exit(1);
}

int main(int argc, char **argv) {
	if (argc != 5) {
		fprintf(stderr, "usage: sign MODULE TOKEN ID PIN\n");
		return 2;
	}
	void *module = dlopen(argv[1], RTLD_NOW);
	if (!module) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	CK_C_GetFunctionList get = (CK_C_GetFunctionList)dlsym(module, "C_GetFunctionList");
	CK_FUNCTION_LIST_PTR p11;
	must("C_GetFunctionList", get(&p11));
	CK_C_INITIALIZE_ARGS args = {.flags = CKF_OS_LOCKING_OK};
	must("C_Initialize", p11->C_Initialize(&args));

	CK_SESSION_HANDLE session;
	must("C_OpenSession", p11->C_OpenSession(find_slot(p11, argv[2]), CKF_SERIAL_SESSION, NULL, NULL, &session));
	must("C_Login", p11->C_Login(session, CKU_USER, (CK_UTF8CHAR_PTR)argv[4], strlen(argv[4])));

	CK_BYTE id[64];
	size_t n = strlen(argv[3]) / 2;
	for (size_t i = 0; i < n && i < sizeof id; i++) {
		unsigned byte;
		if (sscanf(argv[3] + 2 * i, "%2x", &byte) != 1)
			return 2;
		id[i] = (CK_BYTE)byte;
	}
	CK_OBJECT_CLASS class = CKO_PRIVATE_KEY;
	CK_ATTRIBUTE template[] = {{CKA_CLASS, &class, sizeof class}, {CKA_ID, id, n}};
	must("C_FindObjectsInit", p11->C_FindObjectsInit(session, template, 2));
	CK_OBJECT_HANDLE key;
	CK_ULONG found;
	must("C_FindObjects", p11->C_FindObjects(session, &key, 1, &found));
	must("C_FindObjectsFinal", p11->C_FindObjectsFinal(session));
	if (found != 1) {
		fprintf(stderr, "no key %s\n", argv[3]);
		return 1;
	}

	CK_BYTE digest[32] = {1}, signature[256];
	CK_ULONG length = sizeof signature;
	CK_MECHANISM mechanism = {CKM_ECDSA, NULL, 0};
	must("C_SignInit", p11->C_SignInit(session, &mechanism, key));
	must("C_Sign", p11->C_Sign(session, digest, sizeof digest, signature, &length));
	for (CK_ULONG i = 0; i < length; i++)
		printf("%02x", signature[i]);
	printf("\n");
	must("C_Finalize", p11->C_Finalize(NULL));
	return 0;
}
