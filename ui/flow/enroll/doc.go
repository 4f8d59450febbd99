// Package enroll takes keys from nothing to working kubeconfig contexts: it enrolls,
// joins and renews, and says beforehand what would be done. It prints nothing: progress
// leaves through callbacks, questions through a prompter.
package enroll
