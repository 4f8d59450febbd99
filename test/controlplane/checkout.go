package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

var moduleLine = regexp.MustCompile(`(?m)^module github\.com/kubehsm/kubehsm\s*$`)

// Checkout returns the root folder of the checkout that the working folder is
// in: the nearest folder above with the product's go.mod.
func Checkout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && moduleLine.Match(b) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("look for the checkout: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of kubehsm", start)
		}
	}
}
