package p11kit

import (
	"fmt"
	"os"
	"strings"
)

// maxConfig bounds a p11-kit configuration file in bytes.
const maxConfig = 1 << 20

// readConfig reads a p11-kit configuration file: "name: value" lines, blank
// ones and # comments (pkcs11.conf(5)). Lines that are none of these are an
// error; what was read before is returned with it.
func readConfig(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b) > maxConfig {
		return nil, fmt.Errorf("longer than %d bytes", maxConfig)
	}
	values := map[string]string{}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return values, fmt.Errorf("line %d is not name: value", n)
		}
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return values, nil
}
