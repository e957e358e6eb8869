package web

import "net/http"

const loginPath = "/login"

// logIn makes the cookie of the secret in the address, and has the page store its key. The
// secret is of no use afterwards.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		http.Error(w, "bee web: only GET is answered here", http.StatusForbidden)
		return
	}
	if !s.secrets.use(r.URL.Query().Get("secret")) {
		http.Error(w, "bee web: this address was used before, or is not of this `bee web`; it has printed the next one", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(r), Value: s.secrets.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err := w.Write([]byte(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>bee</title><meta name="bee-key" content="` + s.secrets.key + `">
<script type="module" src="login.js"></script></head>
<body><p>The page of bee needs JavaScript.</p></body></html>
`))
	if err == nil && s.Used != nil {
		s.Used()
	}
}
