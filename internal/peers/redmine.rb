# Seeds an empty Redmine with the ticket system of the incident: two projects of
# two tenants, two users with fixed API keys, three custom fields, and an issue
# of the other tenant at 4820, so that the connector's first one is 4821.
Redmine::DefaultData::Loader.load('en')

{ rest_api_enabled: '1', login_required: '1', notified_events: [] }.each { |name, value| Setting[name] = value }

make_project = lambda do |identifier, name|
  Project.create!(identifier: identifier, name: name, is_public: false, trackers: Tracker.all, enabled_module_names: ['issue_tracking'])
end
incidents = make_project.call('inc', 'Production incidents')
other = make_project.call('secret', 'Other tenant')

%w[operation_key payload_sha256 approval_ref].each do |name|
  IssueCustomField.create!(name: name, field_format: 'string', is_filter: true, searchable: true, is_for_all: true, visible: true, tracker_ids: Tracker.pluck(:id))
end

make_user = lambda do |login, key|
  user = User.new(firstname: login, lastname: 'Bot', mail: "#{login}@example.test", language: 'en')
  user.login = login
  user.password = SecureRandom.hex(16)
  user.save!
  token = Token.create!(user: user, action: 'api')
  token.update_column(:value, key) # creation makes a random one
  user
end
connector = make_user.call('connector', ENV.fetch('TICKET_KEY'))
make_user.call('nobody', ENV.fetch('TICKET_KEY_NO_RIGHT'))

reporter = Role.find_by!(name: 'Reporter')
reporter.add_permission!(:view_issues, :add_issues, :add_issue_notes)
Member.create!(project: incidents, principal: connector, role_ids: [reporter.id])

parked = Issue.new(project: other, tracker: Tracker.first, author: User.find_by!(login: 'admin'), subject: ENV.fetch('CANARY'),
                   status: IssueStatus.first, priority: IssuePriority.first)
parked.id = Integer(ENV.fetch('FIRST_ISSUE')) - 1 # SQLite: the next id is the largest one plus one
parked.save!
