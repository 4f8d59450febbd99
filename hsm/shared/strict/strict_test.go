package strict_test

import (
	"errors"
	"io"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/strict"
)

func TestMembers(t *testing.T) {
	for data, want := range map[string]error{
		`{"a":1,"A":{"a":2}}`: nil, "": strict.ErrEmpty, "null": strict.ErrNoObject, "[]": strict.ErrNoObject,
		`{"a":1,"a":2}`: strict.ErrDuplicate, `{"a":1} {}`: strict.ErrMore, `{"a":`: io.ErrUnexpectedEOF, `{"a":1`: io.ErrUnexpectedEOF,
	} {
		all, err := strict.Members([]byte(data))
		if !errors.Is(err, want) || want == nil && (err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "A") {
			t.Errorf("%s: %v, %v, want %v", data, all, err, want)
		}
	}
}

func TestDecode(t *testing.T) {
	var v struct{ A int }
	if err := strict.Decode([]byte(`{"a":1}`+"\n"), &v); err != nil || v.A != 1 {
		t.Errorf("%v, %+v", err, v)
	}
	if err := strict.Decode([]byte(`{"a":1,"b":2}`), &v); err == nil {
		t.Error("took a field that it has not")
	}
	if err := strict.Decode([]byte(`{"a":1}{}`), &v); !errors.Is(err, strict.ErrMore) {
		t.Errorf("two values: %v", err)
	}
}

// TestWrongType: an error does not quote the value, which may be a secret.
func TestWrongType(t *testing.T) {
	all, err := strict.Members([]byte(`{"a":"secret"}`))
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := all[0].Read(&n); err == nil || err.Error() != `field "a" is of the wrong type (string)` {
		t.Errorf("%v", err)
	}
}
