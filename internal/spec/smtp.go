package spec

import (
	"net"
	"strconv"
	"strings"
)

// SMTP is a mail server, which is spoken to by TLS only.
type SMTP struct {
	// Server is its name, and its port; without one: SMTPPort.
	Server string `yaml:"server"`
	// User and Password log in; "": nobody does.
	User     string  `yaml:"user" json:",omitempty"`
	Password *Secret `yaml:"password" json:",omitempty"`
	// From is the sender; "": see Sender.
	From string `yaml:"from" json:",omitempty"`
}

// SMTPPort is the port of servers that speak TLS from the beginning (RFC 8314).
const SMTPPort = "465"

// Address returns the name of the server and its port.
func (s *SMTP) Address() (host, port string) {
	if host, port, err := net.SplitHostPort(s.Server); err == nil {
		return host, port
	}
	return s.Server, SMTPPort
}

// Sender returns the address of the sender of mail to an address.
func (s *SMTP) Sender(to string) string {
	switch {
	case s.From != "":
		return s.From
	case strings.Contains(s.User, "@") && isMailAddress(s.User):
		return s.User
	}
	return to
}

// checkSMTP finds mail servers that cannot be.
func (r *report) checkSMTP(at string, n *Notify) {
	s := n.SMTP
	if s == nil {
		return
	}
	if n.Mail == "" {
		r.atKey(at+".smtp", "leave it out", "%s.smtp: only mail is sent by a mail server", at)
	}
	at += ".smtp"
	host, port := s.Address()
	number, err := strconv.Atoi(port)
	if host == "" || strings.ContainsAny(s.Server, "/@ ") || err != nil || number < 1 || number > 65535 {
		r.at(at+".server", "such as smtp.example.org or smtp.example.org:587", "%s.server: %q is no server", at, s.Server)
	}
	if s.From != "" && (!isMailAddress(s.From) || !strings.Contains(s.From, "@")) {
		r.at(at+".from", "such as ann@example.org", "%s.from: %q is no address", at, s.From)
	}
	switch {
	case s.Password == nil && s.User == "":
		return
	case s.Password == nil:
		r.at(at, "such as password: {file: ~/.config/bee/mail.password}", "%s: `user` needs a `password`", at)
		return
	case s.User == "":
		r.at(at, "", "%s: `password` needs a `user`", at)
	}
	given := 0
	for _, v := range []string{s.Password.Env, s.Password.File, s.Password.Exec} {
		if v != "" {
			given++
		}
	}
	if given != 1 && r.allRead(at+".password") {
		r.at(at+".password", "", "%s.password: give exactly one of `env`, `file` and `exec`", at)
	}
}
