//go:build cgo && !windows

package pkcs11

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>

// Each of Go's threads would be given a heap of its own at its start, of which
// next to nothing is used: a library works in one thread at a time.
__attribute__((constructor)) static void kubehsm_one_heap(void) { mallopt(M_ARENA_MAX, 1); }
#endif

typedef unsigned long (*kubehsm_login)(unsigned long, unsigned long, unsigned char *, unsigned long);
typedef unsigned long (*kubehsm_sign)(unsigned long, unsigned char *, unsigned long, unsigned char *, unsigned long *);
typedef unsigned long (*kubehsm_init_token)(unsigned long, unsigned char *, unsigned long, unsigned char *);
typedef unsigned long (*kubehsm_init_pin)(unsigned long, unsigned char *, unsigned long);
typedef unsigned long (*kubehsm_set_pin)(unsigned long, unsigned char *, unsigned long, unsigned char *, unsigned long);

// CK_ATTRIBUTE.
struct kubehsm_attribute {
	unsigned long type;
	void *value;
	unsigned long len;
};
typedef unsigned long (*kubehsm_get_attributes)(unsigned long, unsigned long, struct kubehsm_attribute *,
	unsigned long);
typedef unsigned long (*kubehsm_get_slots)(unsigned char, unsigned long *, unsigned long *);
typedef unsigned long (*kubehsm_find)(unsigned long, unsigned long *, unsigned long, unsigned long *);

// CK_FUNCTION_LIST of PKCS#11 v2.40: the version, then 68 functions in a fixed order.
struct kubehsm_functions {
	unsigned char major, minor;
	void *f[68];
};

// What miekg/pkcs11 keeps of a module.
struct kubehsm_context {
	void *handle;
	struct kubehsm_functions *functions;
};

enum { KUBEHSM_C_INIT_TOKEN = 9, KUBEHSM_C_INIT_PIN = 10, KUBEHSM_C_SET_PIN = 11, KUBEHSM_C_LOGIN = 18,
	KUBEHSM_C_GET_ATTRIBUTE_VALUE = 24, KUBEHSM_C_SIGN = 43, KUBEHSM_C_GET_SLOT_LIST = 4, KUBEHSM_C_FIND_OBJECTS = 27 };

// kubehsm_open loads a module and returns its handle, or NULL and a message to be freed.
static void *kubehsm_open(const char *path, char **message) {
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (handle == NULL) {
		const char *m = dlerror();
		*message = strdup(m != NULL ? m : "it cannot be loaded");
		return NULL;
	}
	if (dlsym(handle, "C_GetFunctionList") == NULL) {
		*message = strdup("it is no PKCS#11 module: it has no C_GetFunctionList");
		return NULL;
	}
	return handle;
}

static unsigned long kubehsm_call_login(struct kubehsm_functions *l, unsigned long session, unsigned long user,
	void *pin, unsigned long n) {
	return ((kubehsm_login)l->f[KUBEHSM_C_LOGIN])(session, user, (unsigned char *)pin, n);
}

static unsigned long kubehsm_call_init_token(struct kubehsm_functions *l, unsigned long slot, void *pin,
	unsigned long n, void *label) {
	return ((kubehsm_init_token)l->f[KUBEHSM_C_INIT_TOKEN])(slot, (unsigned char *)pin, n, (unsigned char *)label);
}

static unsigned long kubehsm_call_init_pin(struct kubehsm_functions *l, unsigned long session, void *pin,
	unsigned long n) {
	return ((kubehsm_init_pin)l->f[KUBEHSM_C_INIT_PIN])(session, (unsigned char *)pin, n);
}

static unsigned long kubehsm_call_set_pin(struct kubehsm_functions *l, unsigned long session, void *old,
	unsigned long m, void *fresh, unsigned long n) {
	return ((kubehsm_set_pin)l->f[KUBEHSM_C_SET_PIN])(session, (unsigned char *)old, m, (unsigned char *)fresh, n);
}

static unsigned long kubehsm_call_get_attributes(struct kubehsm_functions *l, unsigned long session,
	unsigned long object, struct kubehsm_attribute *attributes, unsigned long n) {
	return ((kubehsm_get_attributes)l->f[KUBEHSM_C_GET_ATTRIBUTE_VALUE])(session, object, attributes, n);
}

static unsigned long kubehsm_call_sign(struct kubehsm_functions *l, unsigned long session, void *data,
	unsigned long n, void *signature, unsigned long *m) {
	return ((kubehsm_sign)l->f[KUBEHSM_C_SIGN])(session, (unsigned char *)data, n, (unsigned char *)signature, m);
}

static unsigned long kubehsm_call_get_slots(struct kubehsm_functions *l, unsigned char present, void *slots,
	unsigned long *n) {
	return ((kubehsm_get_slots)l->f[KUBEHSM_C_GET_SLOT_LIST])(present, (unsigned long *)slots, n);
}

static unsigned long kubehsm_call_find(struct kubehsm_functions *l, unsigned long session, void *objects,
	unsigned long max, unsigned long *n) {
	return ((kubehsm_find)l->f[KUBEHSM_C_FIND_OBJECTS])(session, (unsigned long *)objects, max, n);
}
*/
import "C"

import (
	"bytes"
	"errors"
	"unsafe"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
)

// library is a loaded module beside miekg/pkcs11's view of it: that package
// gives no reason when loading fails, and leaves a copy of the PIN in freed C
// memory at every login. Modules are never unloaded; not all survive it.
type library struct{ functions *C.struct_kubehsm_functions }

// A [p11.Ctx] is one pointer, to what is declared above.
var _ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(p11.Ctx{})]byte{}

// openLibrary loads a module. C_GetFunctionList is called once, by miekg/pkcs11,
// and its answer is shared: p11-kit's client and proxy modules answer each call
// with another list, and to each list belong other sessions.
func openLibrary(path string) (*library, *p11.Ctx, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var message *C.char
	handle := C.kubehsm_open(name, &message)
	if handle == nil {
		defer C.free(unsafe.Pointer(message))
		return nil, nil, errors.New(C.GoString(message))
	}
	ctx := p11.New(path)
	if ctx == nil {
		return nil, nil, errors.New("it cannot be loaded")
	}
	inner := *(**C.struct_kubehsm_context)(unsafe.Pointer(ctx))
	switch {
	case inner.handle != handle:
		return nil, nil, errors.New("the loader opened another file")
	case inner.functions == nil:
		return nil, nil, errors.New("its C_GetFunctionList failed")
	}
	return &library{functions: inner.functions}, ctx, nil
}

// login is C_Login on the secret's own memory. A nil pin is typed on the reader.
func (l *library) login(_ *p11.Ctx, sh p11.SessionHandle, user uint, pin *hsm.Secret) error {
	at, n := memory(pin)
	return result(C.kubehsm_call_login(l.functions, C.ulong(sh), C.ulong(user), at, n))
}

// maxSignature is room for any signature, in bytes: RSA of 16384 bits.
const maxSignature = 2 << 10

// sign is C_Sign, once: miekg/pkcs11 asks for the length first, which takes a
// network's round trip with some modules.
func (l *library) sign(_ *p11.Ctx, sh p11.SessionHandle, data []byte) ([]byte, error) {
	out := make([]byte, maxSignature)
	n := C.ulong(len(out))
	err := result(C.kubehsm_call_sign(l.functions, C.ulong(sh), unsafe.Pointer(unsafe.SliceData(data)), C.ulong(len(data)),
		unsafe.Pointer(&out[0]), &n))
	if err != nil {
		return nil, err
	}
	return out[:min(n, C.ulong(len(out)))], nil
}

// initToken is C_InitToken; label has 32 bytes. A nil pin is typed on the reader.
func (l *library) initToken(_ *p11.Ctx, slot uint, so *hsm.Secret, label []byte) error {
	at, n := memory(so)
	return result(C.kubehsm_call_init_token(l.functions, C.ulong(slot), at, n, unsafe.Pointer(unsafe.SliceData(label))))
}

// initPIN is C_InitPIN. A nil pin is typed on the reader.
func (l *library) initPIN(_ *p11.Ctx, sh p11.SessionHandle, pin *hsm.Secret) error {
	at, n := memory(pin)
	return result(C.kubehsm_call_init_pin(l.functions, C.ulong(sh), at, n))
}

// setPIN is C_SetPIN. Nil PINs are typed on the reader.
func (l *library) setPIN(_ *p11.Ctx, sh p11.SessionHandle, old, fresh *hsm.Secret) error {
	at, n := memory(old)
	to, m := memory(fresh)
	return result(C.kubehsm_call_set_pin(l.functions, C.ulong(sh), at, n, to, m))
}

// attributes is C_GetAttributeValue with room given beforehand: one call, where
// miekg/pkcs11 makes two, and one attribute that the object lacks does not hide
// the others (PKCS#11 v2.40, section 4.1.1 of the usage guide; CK_UNAVAILABLE_INFORMATION
// as its length). rest are those that must be asked for by themselves.
func (l *library) attributes(_ *p11.Ctx, sh p11.SessionHandle, o p11.ObjectHandle,
	types []uint) (values map[uint][]byte, rest []uint, err error) {
	const head = C.size_t(unsafe.Sizeof(C.struct_kubehsm_attribute{}))
	unfilled := bytes.Repeat([]byte{0xff}, int(unsafe.Sizeof(C.ulong(0)))) // CK_UNAVAILABLE_INFORMATION: no value
	total := head * C.size_t(len(types))
	for _, t := range types {
		total += C.size_t(room(t))
	}
	block := C.calloc(1, total)
	if block == nil {
		return nil, types, nil
	}
	defer C.free(block)
	asked := unsafe.Slice((*C.struct_kubehsm_attribute)(block), len(types))
	at := unsafe.Add(block, head*C.size_t(len(types)))
	for i, t := range types {
		asked[i]._type, asked[i].value, asked[i].len = C.ulong(t), at, C.ulong(room(t))
		if len(unfilled) == room(t) {
			copy(unsafe.Slice((*byte)(at), room(t)), unfilled)
		}
		at = unsafe.Add(at, room(t))
	}
	err = result(C.kubehsm_call_get_attributes(l.functions, C.ulong(sh), C.ulong(o), &asked[0], C.ulong(len(types))))
	if err != nil && !is(err, p11.CKR_ATTRIBUTE_TYPE_INVALID, p11.CKR_ATTRIBUTE_SENSITIVE, p11.CKR_BUFFER_TOO_SMALL) {
		return nil, types, err
	}
	values = map[uint][]byte{}
	for i, t := range types {
		filled := func() bool {
			return err == nil || len(unfilled) == room(t) && !bytes.Equal(C.GoBytes(asked[i].value, C.int(room(t))), unfilled)
		}
		switch n := asked[i].len; {
		case n < C.ulong(room(t)) || n == C.ulong(room(t)) && filled():
			values[t] = C.GoBytes(asked[i].value, C.int(n))
		case n == C.ulong(room(t)), is(err, p11.CKR_BUFFER_TOO_SMALL): // not filled in at all, or too long
			rest = append(rest, t)
		}
	}
	return values, rest, nil
}

// maxValue bounds the value of an attribute, in bytes.
const maxValue = 1 << 20

// attribute is C_GetAttributeValue of one attribute, of whatever length. A library whose
// value grows between the two calls is not taken at its word for the second length.
func (l *library) attribute(_ *p11.Ctx, sh p11.SessionHandle, o p11.ObjectHandle, t uint) ([]byte, error) {
	asked := (*C.struct_kubehsm_attribute)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_kubehsm_attribute{}))))
	if asked == nil {
		return nil, p11.Error(p11.CKR_HOST_MEMORY)
	}
	defer C.free(unsafe.Pointer(asked))
	asked._type = C.ulong(t)
	call := func() error {
		return result(C.kubehsm_call_get_attributes(l.functions, C.ulong(sh), C.ulong(o), asked, 1))
	}
	if err := call(); err != nil {
		return nil, err
	}
	n := asked.len
	if n == 0 {
		return []byte{}, nil
	}
	if n > maxValue { // an attribute that the object lacks has ^0
		return nil, p11.Error(p11.CKR_ATTRIBUTE_TYPE_INVALID)
	}
	value := C.calloc(1, C.size_t(n)) //nolint:unconvert // size_t is another type on 32-bit systems
	if value == nil {
		return nil, p11.Error(p11.CKR_HOST_MEMORY)
	}
	defer C.free(value)
	asked.value = value
	if err := call(); err != nil {
		return nil, err
	}
	if asked.len > n {
		return nil, p11.Error(p11.CKR_ATTRIBUTE_TYPE_INVALID)
	}
	return C.GoBytes(value, C.int(asked.len)), nil
}

// maxReaders bounds the slots of a library.
const maxReaders = 1 << 12

// slots is C_GetSlotList: miekg/pkcs11 takes a library's word for how long the list is.
func (l *library) slots(_ *p11.Ctx, present bool) ([]uint, error) {
	var only C.uchar
	if present {
		only = 1
	}
	var n C.ulong
	if err := result(C.kubehsm_call_get_slots(l.functions, only, nil, &n)); err != nil || n == 0 {
		return nil, err
	}
	list := make([]uint, min(n, maxReaders)) // a uint is as wide as a CK_ULONG on every Unix
	n = C.ulong(len(list))
	if err := result(C.kubehsm_call_get_slots(l.functions, only, unsafe.Pointer(&list[0]), &n)); err != nil {
		return nil, err
	}
	return list[:min(uint(n), uint(len(list)))], nil // a library may say that the list is longer
}

// found is C_FindObjects.
func (l *library) found(_ *p11.Ctx, sh p11.SessionHandle) ([]p11.ObjectHandle, error) {
	list := make([]p11.ObjectHandle, objectsAtATime)
	var n C.ulong
	err := result(C.kubehsm_call_find(l.functions, C.ulong(sh), unsafe.Pointer(&list[0]), C.ulong(len(list)), &n))
	if err != nil {
		return nil, err
	}
	return list[:min(uint(n), uint(len(list)))], nil
}

// room is how long a value may be, in bytes.
func room(attribute uint) int {
	switch attribute {
	case p11.CKA_VALUE: // a certificate
		return 8 << 10
	case p11.CKA_CLASS, p11.CKA_KEY_TYPE, p11.CKA_LOCAL, p11.CKA_SENSITIVE, p11.CKA_EXTRACTABLE,
		p11.CKA_ALWAYS_AUTHENTICATE:
		return int(unsafe.Sizeof(C.ulong(0))) // NSS's softokn rejects a larger buffer
	}
	return 2 << 10
}

func memory(pin *hsm.Secret) (unsafe.Pointer, C.ulong) {
	b := pin.Bytes()
	return unsafe.Pointer(unsafe.SliceData(b)), C.ulong(len(b))
}

func result(rv C.ulong) error {
	if rv != p11.CKR_OK {
		return p11.Error(rv)
	}
	return nil
}
