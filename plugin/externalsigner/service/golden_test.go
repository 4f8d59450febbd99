package service

import (
	"encoding/hex"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
)

// A request for a signature by ECDSA and SHA-256 of four bytes, for the cluster https://x and
// the configuration slotId: 0, as clients of the prototype send it after the version.
const goldenSignature = "120b0a0968747470733a2f2f78" + "1a0b0a06736c6f7449641201" + "30" + "220401020304" + "3a020805"

// TestGolden: both forms of the prototype are read, which differ in the type of the version;
// a number of another version is refused, as its name is.
func TestGolden(t *testing.T) {
	for form, c := range map[string]struct {
		version string // bytes of the field
		refused string
	}{
		"string":           {"0a087631616c70686131", ""},
		"number":           {"", ""},
		"number, written":  {"0800", ""},
		"another's string": {"0a027632", `version "v2"`},
		"another's number": {"0801", `version "1"`},
		"both":             {"0a087631616c70686131" + "0801", ""},
	} {
		b, err := hex.DecodeString(c.version + goldenSignature)
		check(t, err)
		r := new(v1alpha1.SignatureRequest)
		if err := proto.Unmarshal(b, r); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if r.GetCluster().GetServer() != "https://x" || r.GetConfiguration()["slotId"] != "0" ||
			hex.EncodeToString(r.GetDigest()) != "01020304" || r.GetSignerOptsECDSA().GetHash() != 5 {
			t.Errorf("%s: %v", form, r)
		}
		if err := spoken(r); (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v", form, err)
		}
	}
}
