package openstack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/gophercloud/gophercloud/v2"
)

// statusOf returns the status of the answer that an error is about, or 0.
func statusOf(err error) int {
	if e, is := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); is {
		return e.Actual
	}
	if e, is := errors.AsType[*serviceError](err); is {
		return e.status
	}
	for _, inner := range again(err) {
		if status := statusOf(inner); status != 0 {
			return status
		}
	}
	return 0
}

// again returns what gophercloud's errors of a second login are about, which they do not unwrap.
func again(err error) []error {
	if e, is := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); is {
		return []error{e.ErrReauth, e.ErrOriginal}
	}
	if e, is := errors.AsType[*gophercloud.ErrErrorAfterReauthentication](err); is {
		return []error{e.ErrOriginal}
	}
	return nil
}

// serviceError is an error in a service's answer.
type serviceError struct {
	status        int
	kind, message string
}

// Error implements error.
func (e *serviceError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s (status %d) %s", e.message, e.status, e.kind))
}

// answered returns the error in an answer, of which each service has a form of its own.
func answered(err error) *serviceError {
	e, is := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if !is {
		for _, inner := range again(err) {
			if s := answered(inner); s != nil {
				return s
			}
		}
		return nil
	}
	found := &serviceError{status: e.Actual}
	var forms map[string]json.RawMessage
	if json.Unmarshal(e.Body, &forms) == nil {
		for _, raw := range forms {
			var form struct{ Type, Title, Message string }
			if json.Unmarshal(raw, &form) == nil && form.Message != "" {
				found.kind, found.message = core.Printable(form.Type, 80), core.Printable(form.Message, 1000)
			}
		}
	}
	if message, is := forms["error_message"]; is && found.message == "" { // of Blazar
		var text string
		if json.Unmarshal(message, &text) == nil {
			found.message = core.Printable(text, 1000)
		}
	}
	if found.message == "" {
		found.message = cmp.Or(core.Printable(string(e.Body[:min(len(e.Body), 200)]), 200), http.StatusText(e.Actual))
	}
	return found
}

// isGone reports whether an error is that an object is not there.
func isGone(err error) bool { return statusOf(err) == http.StatusNotFound }

// isDuplicate reports whether an error is that an object is there.
func isDuplicate(err error) bool {
	e, is := errors.AsType[*serviceError](err)
	return is && e.status == http.StatusConflict && strings.Contains(e.kind, "Exists")
}

// isQuota reports whether a service refuses more than its quota: Nova by a status that it has for rights, too.
func isQuota(e *serviceError) bool {
	return e.kind == "OverQuota" || (e.status == http.StatusForbidden || e.status == http.StatusRequestEntityTooLarge) && strings.Contains(strings.ToLower(e.message), "quota")
}

// explain gives an error of a service a kind and a remedy.
func explain(call string, err error) error {
	if _, is := errors.AsType[*core.Error](err); is {
		return err
	}
	e := &core.Error{Kind: core.Permanent, Op: "OpenStack", Object: call, Err: err}
	s := answered(err)
	if s == nil {
		switch {
		case errors.Is(err, errNoService):
			e.Kind, e.Remedy = core.Unsupported, "Check `region:` at the site, and the region and the interface of the credentials."
		case isUnanswered(err):
			e.Kind, e.Remedy = core.Transient, "Does the cloud answer (`auth_url` of the credentials, the network)?"
		default:
			e.Kind, e.Remedy = core.Unsupported, "Check the cloud in clouds.yaml, or the OS_* variables."
		}
		return e
	}
	e.Err = s
	switch {
	case isQuota(s):
		e.Kind, e.Remedy = core.Busy, "Wait until other machines of the project end, or ask the cloud's operators for a larger quota."
	case s.kind == "IpAddressGenerationFailure", s.kind == "ExternalIpAddressExhausted":
		e.Kind, e.Err, e.Remedy = core.Busy, fmt.Errorf("%w: %w", cloud.ErrNoCapacity, s), "Wait until addresses are free, or use another `pool:` or network."
	case strings.Contains(s.message, "Not enough hosts available"): // Blazar answers so with status 500
		e.Kind, e.Err, e.Remedy = core.Busy, fmt.Errorf("%w: %w", cloud.ErrNoCapacity, s), "Use other properties or types, or a later `start:`, or let another site take the run."
	case s.status == http.StatusUnauthorized:
		e.Kind, e.Remedy = core.Unsupported, "Check the credentials in clouds.yaml or the OS_* variables, and that they have not expired."
	case s.status == http.StatusForbidden:
		e.Kind, e.Remedy = core.Unsupported, "Ask the project's administrator for the role that may do this (often `member`)."
	case s.status == http.StatusNotFound:
		e.Kind = core.NotFound
	case s.status == http.StatusConflict:
		e.Kind = core.Busy
	case s.status == http.StatusRequestEntityTooLarge:
		e.Kind, e.Remedy = core.Busy, "The cloud takes less: remove other images, or ask its operators for a larger quota."
	case s.status == http.StatusBadRequest:
		e.Kind, e.Remedy = core.Unsupported, "Check the keys of `openstack:` at the site."
	case s.status >= http.StatusInternalServerError, s.status == http.StatusTooManyRequests, s.status == http.StatusRequestTimeout:
		e.Kind, e.Remedy = core.Transient, "Does the cloud have an outage? Try again later."
	}
	return e
}

// isUnanswered reports whether a call got no answer, or none that can be read.
func isUnanswered(err error) bool {
	_, sending := errors.AsType[*url.Error](err)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, form := errors.AsType[*json.UnmarshalTypeError](err)
	return sending || syntax || form || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
