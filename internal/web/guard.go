package web

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/wire"
)

// policy is what a page may do: run the scripts of this server, and show pictures that they
// have fetched. Nothing is loaded from elsewhere, and nobody frames a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// setHeaders sets what holds for each answer, also for refusals.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// foreign reports whether a request comes from a page of another origin, or by a name that
// is not that of the loopback: such a name may be rebound to it.
func foreign(r *http.Request) bool {
	if !loopback(r.Host) {
		return true
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin":
	case "none": // typed, or opened by another program
		if r.Header.Get("Sec-Fetch-Dest") != "document" {
			return true
		}
	default:
		return true
	}
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "iframe", "frame", "embed", "object":
		return true
	}
	return false
}

// loopback reports whether a host, with or without a port, is a name of the loopback. The
// port may be another one than that of this process, as ssh forwards one.
func loopback(host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

// hasCookie reports whether a request has the cookie of this process.
func (s *Server) hasCookie(r *http.Request) bool {
	for _, c := range r.CookiesNamed(s.cookieName(r)) {
		if same(c.Value, s.secrets.cookie) {
			return true
		}
	}
	return false
}

// cookieName is that of the port by which the browser reaches this process, as browsers send
// a cookie to all ports of a name.
func (s *Server) cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "80"
	}
	return "bee-" + port
}

// keyHeader is the header in which pages send their key.
const keyHeader = "Bee-Key"

// guard answers each request that is not the user's with 401 or 403, whatever it asks for.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		switch {
		case foreign(r):
			http.Error(w, "bee web: this request comes from a page or by a name that is not of bee web", http.StatusForbidden)
		case r.URL.Path == loginPath:
			s.logIn(w, r)
		case !s.hasCookie(r):
			http.Error(w, "bee web: open the address that `bee web` has printed", http.StatusUnauthorized)
		default:
			known(r)
			next.ServeHTTP(w, r)
		}
	})
}

// connection is the key of a request's connection in its context.
type connection struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, c)
}

// known keeps the connection of a request that is the user's, however many others come.
func known(r *http.Request) {
	if c, is := r.Context().Value(connection{}).(*wire.Guarded); is {
		c.Known() // where the gate has closed it, the answer fails
	}
}

// readWhole ends the time limit for reading a request, which would cancel its answer too. It
// is for requests that are the user's.
func readWhole(w http.ResponseWriter) {
	core.BestEffort(http.NewResponseController(w).SetReadDeadline(time.Time{})) // else the answer has a limit
}

// keyed answers requests about runs only with the key.
func (s *Server) keyed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !same(r.Header.Get(keyHeader), s.secrets.key) {
			http.Error(w, "bee web: open the address that `bee web` has printed", http.StatusUnauthorized)
			return
		}
		readWhole(w)
		next(w, r)
	}
}
