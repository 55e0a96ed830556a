# Python as upstream's image has it: `python` on the path, pip free to install into the system.
ARG BASE
FROM ${BASE}
RUN ln -s /usr/bin/python3 /usr/local/bin/python && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
CMD ["python3"]
