package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzRead: of a log that anybody may have changed, each line is a record or damaged, a
// record is written so that it is read again as the same.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"time":"2026-01-02T03:04:05Z","event":"policy","enrollment":"prod","policy":"writes","before":"always"}`,
		`{"time":"2026-01-02T03:04:05Z","event":"consent","statement":"x"}` + "\n{\"event\":\"unlock\"", "{}\n\n[]\nnull\n",
		`{"event":"policy","enrollment":"a\u001b[2J\nb","policy":"\u202e"}`, "\xff\xfe", `{"event":"policy-key","number":18446744073709551615}`,
		`{"event":"policy","reason":"changed","enrollment":"prod","request":"a\nb","policy":"\u001b[31m\u202e"}`,
		`{"event":"x","time":"-0001-01-01T00:00:00Z"}`,
	} {
		f.Add([]byte(s))
		f.Add([]byte(s + "\n")) // the end of a line is awaited
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		path := filepath.Join(t.TempDir(), "audit.log")
		check(t, os.WriteFile(path, log, 0o600))
		var all []Record
		damaged, err := Read(t.Context(), path, Filter{}, func(r Record) error { all = append(all, r); return nil })
		check(t, err)
		lines := 0
		for line := range bytes.Lines(log) {
			if len(bytes.TrimSpace(line)) > 0 && bytes.HasSuffix(line, []byte("\n")) {
				lines++
			}
		}
		if len(all)+damaged != lines {
			t.Errorf("%d records and %d damaged lines of %d", len(all), damaged, lines)
		}
		again := filepath.Join(t.TempDir(), "audit.log")
		l, err := Open(again)
		check(t, err)
		var kept []Record
		for _, r := range all {
			if l.Write(r) == nil { // a time beyond the year 9999 cannot be written
				kept = append(kept, r)
			}
		}
		check(t, l.Close())
		var back []Record
		if _, err := Read(t.Context(), again, Filter{}, func(r Record) error { back = append(back, r); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(back) != len(kept) {
			t.Fatalf("%d records are read again as %d", len(kept), len(back))
		}
		for i := range back {
			back[i].Time, kept[i].Time = back[i].Time.UTC(), kept[i].Time.UTC()
			if !back[i].Time.Equal(kept[i].Time) && kept[i].Time.IsZero() {
				back[i].Time = kept[i].Time // the log puts a time where none is
			}
			if !reflect.DeepEqual(back[i], kept[i]) {
				t.Errorf("%+v is read again as %+v", kept[i], back[i])
			}
		}
	})
}
