package spec

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Notify is a receiver of notifications about a run. Exactly one of Webhook, Command and
// Mail is set.
type Notify struct {
	// On are the events that are sent: a Notify… word, or waiting>DURATION; none: those of
	// NotifyDefault.
	On []string `yaml:"on" json:",omitempty"`
	// Webhook is an address that gets the run as JSON, and Key the secret that
	// authenticates it; nil: nothing does.
	Webhook string  `yaml:"webhook" json:",omitempty"`
	Key     *Secret `yaml:"key" json:",omitempty"`
	// Command is a shell command that reads the same JSON.
	Command string `yaml:"command" json:",omitempty"`
	// Mail is the address of a person.
	Mail string `yaml:"mail" json:",omitempty"`
	// SMTP is the mail server that takes the mail; nil: the program sendmail of this machine.
	SMTP *SMTP `yaml:"smtp" json:",omitempty"`
}

// Words of Notify.On.
const (
	NotifyEnded     = "ended"
	NotifyFailed    = "failed"
	NotifyMoved     = "moved"
	NotifySuspended = "suspended"
	notifyWaiting   = "waiting>"
)

// NotifyDefault are the events of a receiver that names none.
func NotifyDefault() []string { return []string{NotifyEnded, NotifySuspended} }

// Wants reports whether a receiver is notified of a kind of events.
func (n *Notify) Wants(word string) bool {
	if len(n.On) == 0 {
		return slices.Contains(NotifyDefault(), word)
	}
	return slices.Contains(n.On, word)
}

// Waiting returns after how much waiting the receiver is notified, in the order of its words.
func (n *Notify) Waiting() []time.Duration {
	var list []time.Duration
	for _, word := range n.On {
		if text, is := strings.CutPrefix(word, notifyWaiting); is {
			if limit, _, err := ParseDuration(text); err == nil {
				list = append(list, limit)
			}
		}
	}
	return list
}

// mostReceivers bounds the receivers of a file.
const mostReceivers = 20

// checkNotify finds receivers that cannot be.
func (r *report) checkNotify(list []Notify) {
	if len(list) > mostReceivers {
		r.at("notify", "", "notify: it has %d receivers; at most %d are notified", len(list), mostReceivers)
		return
	}
	for i := range list {
		n, at := &list[i], fmt.Sprintf("notify[%d]", i)
		given := 0
		for _, v := range []string{n.Webhook, n.Command, n.Mail} {
			if strings.TrimSpace(v) != "" {
				given++
			}
		}
		if given != 1 && r.allRead(at) {
			r.at(at, "such as {on: [ended], command: 'notify-send done'}", "%s: give exactly one of `webhook`, `command` and `mail`", at)
		}
		for j, word := range n.On {
			r.checkNotifyWord(fmt.Sprintf("%s.on[%d]", at, j), word)
		}
		if n.Webhook != "" {
			if hint, err := checkWebhook(n.Webhook); err != nil {
				r.at(at+".webhook", hint, "%s.webhook: %v", at, err)
			}
		}
		if n.Mail != "" && !isMailAddress(n.Mail) {
			r.at(at+".mail", "such as ann@example.org", "%s.mail: %q is no address", at, n.Mail)
		}
		r.checkNotifyKey(at, n)
		r.checkSMTP(at, n)
	}
}

// checkNotifyKey finds keys of receivers that authenticate nothing, or are ambiguous.
func (r *report) checkNotifyKey(at string, n *Notify) {
	if n.Key == nil {
		return
	}
	if n.Webhook == "" {
		r.atKey(at+".key", "leave it out", "%s.key: only the body of a webhook is authenticated", at)
	}
	given := 0
	for _, v := range []string{n.Key.Env, n.Key.File, n.Key.Exec} {
		if v != "" {
			given++
		}
	}
	if given != 1 && r.allRead(at+".key") {
		r.at(at+".key", "", "%s.key: give exactly one of `env`, `file` and `exec`", at)
	}
}

// checkNotifyWord finds events that are none.
func (r *report) checkNotifyWord(at, word string) {
	words := []string{NotifyEnded, NotifyFailed, NotifyMoved, NotifySuspended}
	if text, is := strings.CutPrefix(word, notifyWaiting); is {
		if limit, hint, err := ParseDuration(text); err != nil || limit <= 0 {
			r.at(at, hint, "%s: %q is no time to wait, such as waiting>2h", at, word)
		}
		return
	}
	if !slices.Contains(words, word) {
		r.at(at, didYouMean(word, append(words, notifyWaiting+"2h")), "%s: %q is not known", at, word)
	}
}

// checkWebhook finds addresses to which nothing is sent. hint is what to write instead.
func checkWebhook(text string) (hint string, err error) {
	hint = "such as https://example.org/hook"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return hint, errors.New("it is no address")
	case u.User != nil:
		return "authenticate the body by `key:`", errors.New("a password in the address would be recorded")
	case u.Scheme == "https":
	case u.Scheme == "http" && isLoopback(u.Hostname()):
	case u.Scheme == "http":
		return "https://" + strings.TrimPrefix(text, "http://"), errors.New("anybody on the way could read and change it")
	default:
		return hint, fmt.Errorf("bee cannot send to %s://", u.Scheme)
	}
	for key := range u.Query() {
		if slices.Contains(credentials, strings.ToLower(key)) {
			return "authenticate the body by `key:`, or use `command:`", fmt.Errorf("the parameter %q of the address would be recorded", key)
		}
	}
	return "", nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// isMailAddress reports whether a text is one plain address. What begins with a dash would
// be an option of sendmail.
func isMailAddress(text string) bool {
	return matches(`^[A-Za-z0-9_+][A-Za-z0-9._+-]{0,63}(@[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)?$`, text)
}

// notifyReaches lists what receivers get, read and run on the submitting machine.
func notifyReaches(list []Notify) []Reach {
	var reaches []Reach
	for i, n := range list {
		at := fmt.Sprintf("notify[%d]", i)
		add := func(key, does, what string) {
			if what != "" {
				reaches = append(reaches, Reach{at + key, does, what})
			}
		}
		add(".webhook", "sends to", n.Webhook)
		add(".command", "runs", n.Command)
		add(".mail", "sends mail to", n.Mail)
		if n.SMTP != nil {
			add(".smtp.server", "sends to", n.SMTP.Server)
			if n.SMTP.Password != nil {
				add(".smtp.password.env", "uses the variable", n.SMTP.Password.Env)
				add(".smtp.password.file", "uses the secret in", n.SMTP.Password.File)
				add(".smtp.password.exec", "runs", n.SMTP.Password.Exec)
			}
		}
		if n.Key != nil {
			add(".key.env", "uses the variable", n.Key.Env)
			add(".key.file", "uses the secret in", n.Key.File)
			add(".key.exec", "runs", n.Key.Exec)
		}
	}
	return reaches
}

// completeNotify makes paths of receivers absolute.
func completeNotify(list []Notify, absolute func(string) string) {
	for i := range list {
		if k := list[i].Key; k != nil && k.File != "" {
			k.File = absolute(k.File)
		}
		if s := list[i].SMTP; s != nil && s.Password != nil && s.Password.File != "" {
			s.Password.File = absolute(s.Password.File)
		}
	}
}
