package loopback

import "testing"

func TestParseMachineID(t *testing.T) {
	for text, want := range map[string]bool{
		"3d1219c7c4c5404aaa1f6d2a48adfda4\n": true, "3d1219c7c4c5404aaa1f6d2a48adfda4": true,
		"": false, "uninitialized\n": false, "3d1219": false, "00000000000000000000000000000000\n": false,
	} {
		if got := parseMachineID([]byte(text)); (got != nil) != want {
			t.Errorf("%q: %x", text, got)
		}
	}
}
