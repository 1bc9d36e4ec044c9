/* SPDX-License-Identifier: Apache-2.0 */
/* The differences between mbedTLS 2.28, 3.6 and 4.x that agent/sync/crypto.c meets; no other file includes
 * this one. 2.28 and 3.6 want a source of random bytes, 4.x has its own. 3.6 wants one also to parse a
 * private key, and wants the size of a signature's buffer. Serial numbers are big integers in 2.28 and bytes
 * later. */
#ifndef AGENT_CRYPTO_MBEDTLS_H
#define AGENT_CRYPTO_MBEDTLS_H

#include <mbedtls/pk.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>
#include <mbedtls/x509_csr.h>
#include <psa/crypto.h>

#if MBEDTLS_VERSION_MAJOR < 4
#define RNG(f) , f, NULL
#define X509_NO_MEMORY MBEDTLS_ERR_X509_ALLOC_FAILED
#else
#define RNG(f)
#define X509_NO_MEMORY PSA_ERROR_INSUFFICIENT_MEMORY
#endif

#if MBEDTLS_VERSION_MAJOR == 3
#define RNG_TO_PARSE(f) , f, NULL
#else
#define RNG_TO_PARSE(f)
#endif

#if MBEDTLS_VERSION_MAJOR < 3
#define SIGNATURE_ROOM(n)
#define SET_SERIAL serial_number
static int serial_number(mbedtls_x509write_cert *w, unsigned char *serial, size_t n)
{
	mbedtls_mpi v;
	mbedtls_mpi_init(&v);
	int bad = mbedtls_mpi_read_binary(&v, serial, n);
	bad = bad ? bad : mbedtls_x509write_crt_set_serial(w, &v);
	mbedtls_mpi_free(&v);
	return bad;
}
#else
#define SIGNATURE_ROOM(n) , n
#define SET_SERIAL mbedtls_x509write_crt_set_serial_raw
#endif

#endif
