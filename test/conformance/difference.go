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
	Suite string `json:"suite"`
	Test  string `json:"test"`
	// Says is a regular expression for what the test prints through the token.
	Says   string `json:"says"`
	Reason string `json:"reason"`
	// Without are edits of the suite's files that take the reason away.
	Without []edit `json:"without,omitempty"`
}

// readDifferences returns those of a suite.
func readDifferences(suite string) ([]difference, error) {
	var all []difference
	if err := yaml.UnmarshalStrict(differencesFile, &all); err != nil {
		return nil, fmt.Errorf("differences.yaml: %w", err)
	}
	return slices.DeleteFunc(all, func(d difference) bool { return d.Suite != suite }), nil
}

// judge compares a suite's outcomes. It returns what is wrong, in words: tests
// that differ without a reason, and reasons without a difference. Only tests that
// were run count.
func judge(key, token *outcome, reasons []difference) []string {
	var wrong []string
	for _, t := range token.tests {
		if key.find(t.name) == nil {
			wrong = append(wrong, t.name+": was run through the token only")
		}
	}
	for _, k := range key.tests {
		t := token.find(k.name)
		if t == nil {
			wrong = append(wrong, k.name+": was not run through the token")
			continue
		}
		at := slices.IndexFunc(reasons, func(d difference) bool { return d.Test == k.name })
		differ := unlike(k, *t)
		switch {
		case at < 0 && differ != "":
			wrong = append(wrong, fmt.Sprintf("%s: %s\n%s", k.name, differ, end(t.said)))
		case at >= 0 && differ == "":
			wrong = append(wrong, k.name+": differences.yaml has a reason why it differs, and it does not")
		case at >= 0 && !k.passed:
			wrong = append(wrong, k.name+": differs as differences.yaml says, but fails with a key file, too")
		case at >= 0:
			says, err := regexp.Compile(reasons[at].Says)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: differences.yaml: %v", k.name, err))
			} else if !says.MatchString(t.said) {
				wrong = append(wrong, fmt.Sprintf("%s: differs for another reason than differences.yaml gives: %s\n%s",
					k.name, differ, end(t.said)))
			}
		}
	}
	return wrong
}

// unlike is how two runs of a test differ, in words; "" if they do not.
func unlike(key, token test) string {
	for i := range max(len(key.assertions), len(token.assertions)) {
		switch {
		case i == len(token.assertions):
			return fmt.Sprintf("ends through the token before %s", key.assertions[i])
		case i == len(key.assertions):
			return fmt.Sprintf("ends with a key file before %s", token.assertions[i])
		case key.assertions[i] != token.assertions[i]:
			return fmt.Sprintf("with a key file %s, through the token %s", key.assertions[i], token.assertions[i])
		}
	}
	if key.passed != token.passed {
		return fmt.Sprintf("%s with a key file, %s through the token", passes(key.passed), passes(token.passed))
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
