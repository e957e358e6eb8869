package core

import "errors"

// Together calls functions at the same time, and joins the errors of all.
func Together(parts []func() error) error {
	errs := make(chan error, len(parts))
	for _, part := range parts {
		go func() { errs <- part() }()
	}
	var all error
	for range parts {
		all = errors.Join(all, <-errs)
	}
	return all
}
