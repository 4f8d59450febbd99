package kubeconfig

import (
	"regexp"
	"strings"
)

const redacted = "(redacted)"

const secretWord = `(?:[\w.-]*(?:token|secret|password|passwd|passphrase|key-data|` +
	`api-?key|access-?key|private-?key)|pin)`

// redact returns the lines of a kubeconfig, line ends included, with what may
// be a secret replaced. It errs on the side of hiding.
func redact(text string) []string {
	var (
		// secretKey is a block-style key with a secret value. A key file's path and a token file's path are none.
		secretKey = regexp.MustCompile(`(?i)^([ \t]*(?:- +)*["']?` + secretWord + `["']?[ \t]*:)([ \t].*|[ \t]*)$`)
		// secretPair is such a key inside a flow collection.
		secretPair = regexp.MustCompile(`(?i)(["']?\b` + secretWord + `["']?[ \t]*:[ \t]*)` +
			`("(?:[^"\\]|\\.)*"?|'[^']*'?|[^,}\]\s]+)`)
		// secretFlag is a secret in a plugin's arguments, after = or in the next argument.
		secretFlag     = regexp.MustCompile(`(?i)(--?` + secretWord + `=)[^"',\s]+`)
		secretFlagNext = regexp.MustCompile(`(?i)^[ \t]*(?:- +)+["']?--?` + secretWord + `["']?[ \t]*$`)
		secretFlagFlow = regexp.MustCompile(`(?i)(["']--?` + secretWord + `["'][ \t]*,[ \t]*)("[^"]*"?|'[^']*'?)`)
		// envValue is an environment variable's, whose name may stand before or after.
		envValue = regexp.MustCompile(`^([ \t]*(?:- +)*["']?value["']?[ \t]*:)[ \t]+(\S.*)$`)
		envPair  = regexp.MustCompile(`((?:"value"|'value'|\bvalue)[ \t]*:[ \t]*)("(?:[^"\\]|\\.)*"?|'[^']*'?|[^,}\]\s]+)`)
		harmless = regexp.MustCompile(`^[ \t]*(?:- +)*["']?name["']?[ \t]*:[ \t]+["']?(KUBEHSM_HOME|KUBERNETES_EXEC_INFO|` +
			`HOME|PATH|AWS_PROFILE|AWS_REGION|AWS_DEFAULT_REGION)["']?[ \t\r\n]*$`)
		element = regexp.MustCompile(`^([ \t]*(?:- +)+)\S`)
	)
	lines := strings.SplitAfter(text, "\n")
	hideBelow := -1 // column of a secret key whose value goes on in deeper lines
	hideNext := false
	for i, full := range lines {
		line := strings.TrimRight(full, "\r\n")
		end := full[len(line):]
		column := indentWidth(line)
		blank := strings.TrimSpace(line) == ""
		if hideBelow >= 0 && (blank || column > hideBelow) {
			if !blank {
				lines[i] = line[:column] + redacted + end
			}
			continue
		}
		hideBelow = -1
		if hideNext {
			if m := element.FindStringSubmatch(line); m != nil {
				lines[i], hideNext = m[1]+redacted+end, false
				continue
			}
		}
		if !suspicious(line) {
			hideNext = false
			continue
		}
		hideNext = secretFlagNext.MatchString(line)
		if m := secretKey.FindStringSubmatch(line); m != nil {
			hideBelow = len(m[1]) - len(strings.TrimLeft(m[1], " \t-"))
			if strings.TrimSpace(m[2]) != "" {
				line = m[1] + " " + redacted
			}
			lines[i] = line + end
			continue
		}
		value := envValue.FindStringSubmatch(line)
		shown := value != nil && beside(lines, i, harmless)
		if value != nil && !shown {
			hideBelow = len(value[1]) - len(strings.TrimLeft(value[1], " \t-"))
			lines[i] = value[1] + " " + redacted + end
			continue
		}
		if strings.ContainsAny(line, "{[") || strings.HasPrefix(strings.TrimSpace(line), `"`) {
			if !shown {
				line = envPair.ReplaceAllString(line, "${1}"+redacted)
			}
			line = secretPair.ReplaceAllString(line, "${1}"+redacted)
			line = secretFlagFlow.ReplaceAllString(line, "${1}"+redacted)
		}
		lines[i] = secretFlag.ReplaceAllString(line, "${1}"+redacted) + end
	}
	return lines
}

// suspicious sorts out, without a regular expression, the lines that need no
// second look: plain block lines whose key says nothing of a secret.
func suspicious(line string) bool {
	if strings.ContainsAny(line, "{[") || strings.HasPrefix(strings.TrimSpace(line), `"`) ||
		strings.Contains(line, "--") || strings.Contains(line, " -") {
		return true
	}
	key, _, _ := strings.Cut(line, ":")
	key = strings.ToLower(key)
	for _, word := range []string{"token", "secret", "pass", "key", "pin", "value"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return strings.HasPrefix(line, "-")
}

// beside tells whether name matches the line before or after line i, whichever is of the same environment variable.
func beside(lines []string, i int, name *regexp.Regexp) bool {
	at := i - 1
	if strings.HasPrefix(strings.TrimSpace(lines[i]), "- ") {
		at = i + 1
	}
	return at >= 0 && at < len(lines) && name.MatchString(lines[at])
}
