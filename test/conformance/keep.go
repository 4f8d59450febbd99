//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kept are the results of a suite one way, in a file. A run adds to it after each
// part, so that one that is stopped goes on where it was.
type kept struct {
	file string
	// Kubernetes is the suite's version, Program the digest of kubehsm: "" with a
	// key file. Results of others are dropped.
	Kubernetes, Program string
	Outcome             outcome
	// Repeat are tests that did not go as they should: the next run repeats them.
	Repeat []string
}

// openKept reads the results that there are of a suite one way. dir is the folder
// of all; with "" none are kept.
func (s *stage) openKept(suite, way string) (*kept, error) {
	k := &kept{Kubernetes: s.upstream.version}
	if way == token {
		b, err := os.ReadFile(s.kubehsm)
		if err != nil {
			return nil, err
		}
		digest := sha256.Sum256(b)
		k.Program = hex.EncodeToString(digest[:])
	}
	if s.results == "" {
		return k, nil
	}
	file := filepath.Join(s.results, suite+"-"+fileName(way)+".json")
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		var old kept
		if err := json.Unmarshal(b, &old); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if old.Kubernetes == k.Kubernetes && old.Program == k.Program {
			k = &old
		} else {
			fmt.Fprintf(os.Stderr, "== %s, by %s: results of another version are dropped\n", suite, way)
		}
	}
	k.file = file
	return k, nil
}

// fileName is a way's name in the name of a file.
func fileName(way string) string { return strings.ReplaceAll(way, " ", "-") }

// write replaces the file.
func (k *kept) write() error {
	if k.file == "" {
		return nil
	}
	b, err := json.MarshalIndent(k, "", "\t")
	if err != nil {
		return err
	}
	fresh := k.file + ".new"
	return errors.Join(os.MkdirAll(filepath.Dir(k.file), 0o700), os.WriteFile(fresh, b, 0o600), os.Rename(fresh, k.file))
}

// left are those parts of tests that have no result, or are to be repeated. A part
// is what is run at once: size tests, or all if size is 0; one part without tests is
// a whole suite.
func (k *kept) left(tests []string, size int) [][]string {
	switch {
	case tests == nil && len(k.Outcome.Tests) == 0:
		return [][]string{nil}
	case tests == nil:
		tests = k.Repeat
	default:
		tests = slices.DeleteFunc(slices.Clone(tests), func(name string) bool {
			return k.Outcome.find(name) != nil && !slices.Contains(k.Repeat, name)
		})
	}
	if size == 0 {
		size = max(len(tests), 1)
	}
	return slices.Collect(slices.Chunk(tests, size))
}

// add takes the results of a part. first tells that the way was opened for it:
// what the token has done is counted from then.
func (k *kept) add(part *outcome, first bool) error {
	o := &k.Outcome
	o.Tests, o.Again = replace(o.Tests, part.Tests), replace(o.Again, part.Again)
	o.Took += part.Took
	if first {
		o.Openings = append(o.Openings, opening{})
	}
	o.Openings[len(o.Openings)-1] = part.Openings[0]
	k.Repeat = slices.DeleteFunc(k.Repeat, func(name string) bool { return part.find(name) != nil })
	return k.write()
}

// replace puts new results in the place of those that there are. What is asserted
// outside the groups is the first run's, which had all groups.
func replace(all, results []test) []test {
	for _, t := range results {
		i := slices.IndexFunc(all, func(u test) bool { return u.Name == t.Name })
		switch {
		case i < 0:
			all = append(all, t)
		case t.Name != outside:
			all[i] = t
		}
	}
	return all
}
