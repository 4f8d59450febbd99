// Package kubeconfig reads kubeconfig files as kubectl does, and changes them
// as transactions: a [Plan] says what would change, [Plan.Diff] shows it,
// [Plan.Apply] does it, [Rules.PlanUndo] takes the last one back.
//
//	rules := kubeconfig.DefaultRules(flag)
//	plan, err := rules.Plan(ctx, entry, kubeconfig.Options{})
//	fmt.Print(plan.Diff())
//	err = plan.Apply(ctx, kubeconfig.Backups(dir))
//
// # What an edit leaves alone
//
// The text is spliced: the lines of the entry change, every other byte of the
// file stays (comments, key order, indentation, quoting, anchors, line ends,
// unknown fields). Before anything is written the new text is parsed again and
// compared: all other entries must mean what they meant. A text that cannot be
// edited so, such as JSON, is refused with [ErrUnsupported] and the file stays as it is.
//
// # What a crash leaves behind
//
// Files are replaced by rename, so that each is the old or the new one at any
// moment. What takes the change back is written before the first rename. A process
// killed while it holds client-go's FILE.lock leaves it behind, as kubectl
// does. Later calls take it over: at once if it is kubehsm's, whose locks say
// so, and when it is a minute old if it is client-go's, which is empty. Any other
// is left alone, and named ([LockError]). What a killed process was writing is
// removed by the next edit of the file.
//
// Hard links, access control lists and extended attributes are not carried
// over to the new file; mode, owner and symbolic links are.
package kubeconfig
