package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are the PEM files of an authority that nobody else knows, of a server on
// 127.0.0.1 and of a client. NewCertificates makes them.
type Certificates struct {
	CA                    string
	ServerCert, ServerKey string
	ClientCert, ClientKey string
}

// NewCertificates makes an authority for t, and removes it when t ends. Servers that
// testenv starts can read its files.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir, err := serverDir("tls")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := func(name string) string { return filepath.Join(dir, name) }
	c := &Certificates{
		CA:         path("ca.pem"),
		ServerCert: path("server.pem"), ServerKey: path("server.key"),
		ClientCert: path("client.pem"), ClientKey: path("client.key"),
	}
	ca, err := newAuthority()
	if err == nil {
		err = errors.Join(
			writePEM(c.CA, "CERTIFICATE", ca.der),
			ca.issue(c.ServerCert, c.ServerKey, x509.ExtKeyUsageServerAuth),
			ca.issue(c.ClientCert, c.ClientKey, x509.ExtKeyUsageClientAuth),
		)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Server is for a server in the process of the test. It wants to see the certificate of
// a client.
func (c *Certificates) Server(t testing.TB) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.ServerCert, c.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.pool(t),
	}
}

// Client is for a client of the test's own.
func (c *Certificates) Client(t testing.TB) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: c.pool(t)}
}

func (c *Certificates) pool(t testing.TB) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(c.CA)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s holds no certificate (%v)", c.CA, err)
	}
	return pool
}

// FreePort is a loopback port for a setting of a server that a test starts.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// An authority signs certificates.
type authority struct {
	der  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("outbox test authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{der, cert, key}, err
}

func (a *authority) issue(certFile, keyFile string, usage x509.ExtKeyUsage) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := certificate("127.0.0.1")
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{usage}
	template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(certFile, "CERTIFICATE", der), writePEM(keyFile, "PRIVATE KEY", private))
}

func certificate(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func writePEM(path, kind string, der []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return errors.Join(os.WriteFile(path, text, 0o600), handOver(path))
}
