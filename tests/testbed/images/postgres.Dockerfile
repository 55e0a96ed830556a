# PostgreSQL with the paths, user, signal and environment of upstream's image.
ARG BASE
FROM ${BASE}
RUN getent passwd postgres >/dev/null || useradd --system --uid 999 --user-group --home-dir /var/lib/postgresql postgres; \
    install -d -o postgres -g postgres /var/lib/postgresql/data /run/postgresql
COPY pgsql /usr/local/pgsql
COPY docker-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
RUN chmod 0755 /usr/local/bin/docker-entrypoint.sh
ENV PATH=/usr/local/pgsql/bin:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin PGDATA=/var/lib/postgresql/data
EXPOSE 5432
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
