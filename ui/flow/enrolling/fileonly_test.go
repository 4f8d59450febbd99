package enrolling

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
)

// jwt is a token of a service account that ends at end, as far as kubehsm reads it.
func jwt(end time.Time) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"RS256"}`) + "." + part(fmt.Sprintf(`{"exp":%d}`, end.Unix())) + "." + part("signature")
}

// TestSetToken: a request is filed with a bootstrap token or a file-only token; neither is in the record.
func TestSetToken(t *testing.T) {
	good := jwt(time.Now().Add(time.Hour))
	for _, c := range []struct {
		text, bearer string
		err          error
	}{
		{"abcdef.0123456789abcdef", "abcdef.0123456789abcdef", nil},
		{good, good, nil},
		{jwt(time.Now().Add(-time.Hour)), "", ErrFileOnly},
		{"eyJ.!.x", "", bootstraptoken.ErrMalformed},
		{"eyJh.eA.x", "", bootstraptoken.ErrMalformed},
		{"", "", bootstraptoken.ErrMalformed},
	} {
		var j Join
		if err := j.SetToken([]byte(c.text)); !errors.Is(err, c.err) || j.Bearer() != c.bearer {
			t.Errorf("%q: %q, %v", c.text, j.Bearer(), err)
		}
		if record, err := json.Marshal(j); err != nil || c.bearer != "" && strings.Contains(string(record), c.bearer) {
			t.Errorf("the record is %s, %v", record, err)
		}
		if j.Wipe(); strings.Trim(strings.TrimPrefix(j.Bearer(), "abcdef."), "\x00") != "" {
			t.Errorf("%q is left", j.Bearer())
		}
	}
	if !IsFileOnly([]byte(good)) || IsFileOnly([]byte("abcdef.0123456789abcdef")) {
		t.Error("one is taken for the other")
	}
}
