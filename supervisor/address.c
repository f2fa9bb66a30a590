#include "supervisor/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "common/options.h"

static const struct sockaddr_in *
v4(const struct sockaddr_storage *a)
{
	return (const struct sockaddr_in *)(const void *)a;
}

static const struct sockaddr_in6 *
v6(const struct sockaddr_storage *a)
{
	return (const struct sockaddr_in6 *)(const void *)a;
}

/* The host's bytes, without brackets, into `ret`; whether they are of IPv6. */
static const char *
take_host(const char *text, const char *colon, char ret[INET6_ADDRSTRLEN], bool *ret_v6)
{
	size_t n = (size_t)(colon - text);

	*ret_v6 = n >= 2 && text[0] == '[' && colon[-1] == ']';
	if (*ret_v6) {
		text++;
		n -= 2;
	}
	if (n == 0 || n >= INET6_ADDRSTRLEN)
		return "has no numeric host";
	memcpy(ret, text, n);
	ret[n] = '\0';
	return NULL;
}

const char *
address_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len)
{
	const char *colon = strrchr(text, ':'), *fault;
	struct sockaddr_storage a = { 0 };
	char host[INET6_ADDRSTRLEN];
	uint64_t port;
	bool is_v6;

	if (!colon)
		return "has no port";
	if (options_parse_number(colon + 1, 65535, &port) < 0)
		return "has no port from 0 to 65535";
	fault = take_host(text, colon, host, &is_v6);
	if (fault)
		return fault;
	if (is_v6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&a;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		if (inet_pton(AF_INET6, host, &in6->sin6_addr) != 1)
			return "has no numeric host";
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)(void *)&a;

		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		if (inet_pton(AF_INET, host, &in->sin_addr) != 1)
			return "has no numeric host";
	}
	*ret = a;
	*ret_len = is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	return NULL;
}

bool
address_is_loopback(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return ntohl(v4(a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(a)->sin6_addr);
}

unsigned
address_port(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET6 ? v6(a)->sin6_port : v4(a)->sin_port);
}

void
address_format(const struct sockaddr_storage *a, char ret[ADDRESS_TEXT_MAX])
{
	char host[INET6_ADDRSTRLEN] = "";
	bool is_v6 = a->ss_family == AF_INET6;

	if (is_v6)
		inet_ntop(AF_INET6, &v6(a)->sin6_addr, host, sizeof(host));
	else
		inet_ntop(AF_INET, &v4(a)->sin_addr, host, sizeof(host));
	snprintf(ret, ADDRESS_TEXT_MAX, is_v6 ? "[%s]:%u" : "%s:%u", host, address_port(a));
}
