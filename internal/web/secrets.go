package web

import (
	"crypto/rand"
	"crypto/subtle"
	"sync"
	"time"
)

// secrets are those of one process. None is stored, so that they end with it.
type secrets struct {
	// cookie is what a browser sends, and key what pages of this origin add.
	cookie, key string

	mu    sync.Mutex
	login string
	// downloads are files that a page may fetch once by a link, by their token.
	downloads map[string]download
}

// download is a file that a link leads to, for a while.
type download struct {
	run, place, name string
	until            time.Time
}

// downloadTime is how long a link to a file can be used.
const downloadTime = time.Minute

// mostDownloads bounds the links that wait for their use.
const mostDownloads = 1000

func newSecrets() *secrets {
	return &secrets{cookie: rand.Text(), key: rand.Text(), login: rand.Text(), downloads: map[string]download{}}
}

// same compares a secret in a time that does not depend on what is equal.
func same(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// use reports whether a text is the secret of the address. That secret ends with it.
func (s *secrets) use(given string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !same(given, s.login) {
		return false
	}
	s.login = rand.Text()
	return true
}

// current is the secret of the next address.
func (s *secrets) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.login
}

// offer returns the token of a link to a file; "": too many wait.
func (s *secrets) offer(d download) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for token, old := range s.downloads {
		if now.After(old.until) {
			delete(s.downloads, token)
		}
	}
	if len(s.downloads) >= mostDownloads {
		return ""
	}
	token := rand.Text()
	d.until = now.Add(downloadTime)
	s.downloads[token] = d
	return token
}

// take returns the file of a link, which is used by that.
func (s *secrets) take(token string) (download, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, is := s.downloads[token]
	delete(s.downloads, token)
	return d, is && time.Now().Before(d.until)
}
