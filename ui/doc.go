// Package ui is the one place that turns errors into text and exit codes, for
// the command line and the terminal UI alike. The interfaces themselves are
// in the packages below it: cli, tui, prompt, flow.
package ui
