//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed differences.yaml
var differencesFile []byte

// difference is a test that does not go the same way through the token, with its
// reason.
type difference struct {
	Test string `json:"test"`
	// Says is a regular expression for what the test prints through the token.
	Says   string `json:"says"`
	Reason string `json:"reason"`
	// Without are edits of the suite's files that take the reason away.
	Without []edit `json:"without,omitempty"`
}

func readDifferences() (all []difference, err error) {
	if err := yaml.UnmarshalStrict(differencesFile, &all); err != nil {
		return nil, fmt.Errorf("differences.yaml: %w", err)
	}
	return all, nil
}

// judge compares a suite's outcomes. It returns what is wrong: tests that differ
// without a reason, and reasons without a difference. Only tests that were run
// count.
func judge(key, token *outcome, reasons []difference) (all []string) {
	wrong := func(t test, format string, a ...any) { all = append(all, t.Name+": "+fmt.Sprintf(format, a...)) }
	for _, t := range token.Tests {
		if key.find(t.Name) == nil {
			wrong(t, "was run through the token only")
		}
	}
	for _, k := range key.Tests {
		t := token.find(k.Name)
		if t == nil {
			wrong(k, "was not run through the token")
			continue
		}
		at := slices.IndexFunc(reasons, func(d difference) bool { return d.Test == k.Name })
		differ := unlike(k, *t)
		switch {
		case at < 0 && differ != "":
			wrong(k, "%s\n%s", differ, end(k.Said+t.Said))
		case at >= 0 && differ == "":
			wrong(k, "differences.yaml has a reason why it differs, and it does not")
		case at >= 0 && !k.Passed:
			wrong(k, "differs as differences.yaml says, but fails with a key file, too")
		case at >= 0:
			says, err := regexp.Compile(reasons[at].Says)
			if err != nil {
				wrong(k, "differences.yaml: %v", err)
			} else if !says.MatchString(t.Said) {
				wrong(k, "differs for another reason than differences.yaml gives: %s\n%s", differ, end(t.Said))
			}
		}
	}
	// What was run through the token without the reason for which it differs.
	for _, t := range token.Again {
		if k := key.find(t.Name); k != nil {
			if differ := unlike(*k, t); differ != "" {
				wrong(t, "even without the reason of differences.yaml: %s\n%s", differ, end(t.Said))
			}
		}
	}
	return all
}

// unlike is how two runs of a test differ, in words; "" if they do not.
func unlike(key, token test) string {
	for i := range max(len(key.Assertions), len(token.Assertions)) {
		switch {
		case i == len(token.Assertions):
			return fmt.Sprintf("ends through the token before %s", key.Assertions[i])
		case i == len(key.Assertions):
			return fmt.Sprintf("ends with a key file before %s", token.Assertions[i])
		case key.Assertions[i] != token.Assertions[i]:
			return fmt.Sprintf("with a key file %s, through the token %s", key.Assertions[i], token.Assertions[i])
		}
	}
	if key.Passed != token.Passed {
		return fmt.Sprintf("%s with a key file, %s through the token", passes(key.Passed), passes(token.Passed))
	}
	return ""
}

func passes(yes bool) string {
	if yes {
		return "passes"
	}
	return "fails"
}

// end is the end of what a test printed, indented.
func end(said string) string {
	said = said[max(0, len(said)-1500):]
	return "\t" + strings.ReplaceAll(strings.TrimSpace(said), "\n", "\n\t")
}
