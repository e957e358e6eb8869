package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// Authority signs the certificates of one attempt's nodes. Its key never
// leaves the process that made it.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// Certificates are valid from a day before to a year after they are made. As
// they live as long as one attempt, what keeps a stranger out is the key: the
// hosts' clocks, which may be off or jump, have no say (see Identity.now).
const (
	clockSlack = 24 * time.Hour
	lifetime   = 366 * 24 * time.Hour
)

// NewAuthority makes a new authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("bee run")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	return &Authority{key: key, cert: cert, pem: encodePEM("CERTIFICATE", raw)}, nil
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-clockSlack), NotAfter: time.Now().Add(lifetime),
	}
}

func encodePEM(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}

// Certificate is the authority's own, in PEM.
func (a *Authority) Certificate() []byte { return a.pem }

// Issue makes a key and a certificate for a name, in PEM.
func (a *Authority) Issue(name string) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := template(name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	raw, err := x509.CreateCertificate(rand.Reader, t, a.cert, &k.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	rawKey, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return encodePEM("CERTIFICATE", raw), encodePEM("EC PRIVATE KEY", rawKey), nil
}

// Identity is a node's own key with the authority that it trusts.
type Identity struct {
	cert tls.Certificate
	pool *x509.CertPool
	made time.Time
	// spare are buffers of connections, each needed while something is written.
	spare sync.Pool
}

// now is when the certificates were made, by the clock of who made them.
func (i *Identity) now() time.Time { return i.made }

func (i *Identity) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.cert}, Time: i.now,
		// No session is resumed, and none is worth keeping for decades.
		SessionTicketsDisabled: true, CurvePreferences: []tls.CurveID{tls.X25519},
	}
}

// NewIdentity reads what Issue and Certificate gave.
func NewIdentity(ca, cert, key []byte) (*Identity, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the node's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("read the authority's certificate: it is not PEM")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("read the node's certificate: %w", err)
	}
	return &Identity{cert: pair, pool: pool, made: leaf.NotBefore.Add(clockSlack)}, nil
}

// Client is the configuration for dialling the node of that name. Anyone else
// who answers there is refused.
func (i *Identity) Client(name string) *tls.Config {
	c := i.config()
	c.RootCAs, c.ServerName = i.pool, name
	return c
}

// Server is the configuration for listening. Callers without a certificate of
// the run are refused.
func (i *Identity) Server() *tls.Config {
	c := i.config()
	c.ClientCAs, c.ClientAuth = i.pool, tls.RequireAndVerifyClientCert
	return c
}

// PeerName is the name in the certificate of a connection's other end.
func PeerName(c *tls.Conn) (string, error) {
	certs := c.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return "", errors.New("the other end showed no certificate")
	}
	return certs[0].Subject.CommonName, nil
}
