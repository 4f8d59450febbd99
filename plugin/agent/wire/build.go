package wire

import (
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Build tells one program file from another.
type Build struct {
	// Version is what it says of itself, such as v1.2.3; "" or (devel) are unknown.
	Version string `json:"version,omitempty"`
	// Path is absolute, without symbolic links.
	Path string `json:"path"`
	// Size in bytes and time of the last change tell whether the file at Path is
	// still the same.
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// SameFile tells whether the file is still the same.
func (b Build) SameFile(o Build) bool { return b.Size == o.Size && b.Modified.Equal(o.Modified) }

// Replaces tells whether an agent of b should take over from one of old. Two
// programs installed side by side must not drive each other's agents out in
// turns, so only one side can win:
//
//   - At one path, whatever is there now: the old one cannot be started any more.
//   - At two paths the higher version; where neither has one, the file that was
//     made later.
func (b Build) Replaces(old Build) bool {
	if b.Path == old.Path {
		return !b.SameFile(old)
	}
	mine, theirs := semantic(b.Version), semantic(old.Version)
	switch {
	case mine != "" && theirs != "":
		return semver.Compare(theirs, mine) < 0
	case mine != "" || theirs != "":
		return false
	}
	return b.Modified.After(old.Modified)
}

// semantic is a version as package semver wants it, "" if it is none.
func semantic(v string) string {
	if v = "v" + strings.TrimPrefix(v, "v"); semver.IsValid(v) {
		return v
	}
	return ""
}

// String names the build for people.
func (b Build) String() string {
	if b.Version == "" || b.Version == "(devel)" {
		return b.Path
	}
	return b.Version
}
