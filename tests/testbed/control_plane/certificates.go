package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	lifetime = 30 * 24 * time.Hour
	// A clock may be set back a little while a test runs.
	tolerance = time.Hour
)

// authority signs the certificates of one control plane.
type authority struct {
	directory   string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// writeCertificates fills a directory with what the parts of one control plane need to trust each other:
// ca.crt, {apiserver,kubelet}.{crt,key} for 127.0.0.1, and service-account.key, which signs tokens.
func writeCertificates(directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	ours := &authority{directory: directory}
	if err := ours.begin(); err != nil {
		return err
	}
	apiserver := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if err := ours.issue("apiserver", apiserver); err != nil {
		return err
	}
	if err := ours.issue("kubelet", []string{"localhost"}); err != nil {
		return err
	}
	_, err := writeKey(filepath.Join(directory, "service-account.key"))
	return err
}

// template returns a certificate of the next serial number, to be completed.
func (a *authority) template(name string) *x509.Certificate {
	a.serial++
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-tolerance),
		NotAfter:     now.Add(lifetime),
	}
}

// begin makes the authority's own key and certificate; the key is never written.
func (a *authority) begin() (err error) {
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	template := a.template("argosy-testbed")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return writePEM(filepath.Join(a.directory, "ca.crt"), "CERTIFICATE", der)
}

// issue makes key and certificate of a server on 127.0.0.1.
func (a *authority) issue(name string, hosts []string) error {
	key, err := writeKey(filepath.Join(a.directory, name+".key"))
	if err != nil {
		return err
	}
	template := a.template(name)
	template.DNSNames, template.IPAddresses = hosts, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(a.directory, name+".crt"), "CERTIFICATE", der)
}

// writeKey makes a key and writes it; elliptic curves make handshakes cheap.
func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
